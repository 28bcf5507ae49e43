"""Identity of a model: the game with the parameters on which its answers depend."""

from dataclasses import replace

import pytest

from games.core import make
from games.positions import parameters_text
from zerofleet.contracts.encodings import encoder_fingerprint
from zerofleet.contracts.manifests import Manifest, require_game
from zerofleet.errors import VersionSkew
from zerofleet.testing.models import sample_manifest


def manifest_of(**parameters: object) -> Manifest:
    game = make("rock_paper_scissors", turns=5, **parameters)
    spec = game.spec()
    return replace(
        sample_manifest(),
        model="rock_paper_scissors_turns5",
        game=spec.name,
        parameters=parameters_text(game),
        rules_version=spec.rules_version,
        planes=spec.planes,
        num_actions=spec.num_actions,
        max_legal=spec.max_legal,
        num_players=spec.num_players,
        encoder=encoder_fingerprint(game),
    )


@pytest.mark.parametrize("trained", ["result", "margin"])
@pytest.mark.parametrize("asked", ["result", "margin"])
def test_a_model_plays_the_game_whatever_the_scores_it_was_trained_on(trained, asked):
    require_game(manifest_of(score=trained), make("rock_paper_scissors", turns=5, score=asked))


def test_a_model_of_another_length_or_encoding_is_refused():
    with pytest.raises(VersionSkew, match=r"has parameters .*'turns': '5'.*, this program wants .*'turns': '6'"):
        require_game(manifest_of(), make("rock_paper_scissors", turns=6))
    with pytest.raises(VersionSkew, match="has parameters"):
        require_game(manifest_of(own_moves=True), make("rock_paper_scissors", turns=5))
