"""Monte-Carlo tree search for blocks of games: select, expand, evaluate, back up; compiled and resumable.

Two compiled functions alternate over all games of a block, without the GIL, with one evaluation in between.

    kernel.advance      runs every game until its leaves need the network: select, expand; plays moves whose searches are done
    Evaluator.evaluate  one request for the leaves of all games
    kernel.absorb       writes the evaluations to the trees: evaluate, back up

`kernel.search_on` does both game by game, so that a tree comes into the processor's cache once for each batch.

One simulation, from the root A to the new node C. Values are vectors in seat order, here (player 0, player 1), and are never
negated: the player to move at a node reads their own entry of its edges.

    select     A   player 0 to move: the edge with the highest sum of mean value[0] and exploration
               |
               B   player 1 to move: the same with mean value[1]
               |
    expand     C   player 0 to move: a new node, its position and an edge for each legal action
               |
    evaluate   v = (0.3, -0.3) and a prior for each edge of C
               |
    back up    v is added unchanged to the edges B->C and A->B; the visits of A, B and C are incremented

    select     `simulate.descend`, `puct.select_edge`     PUCT (Silver et al. 2018, pseudocode); first-play urgency (Leela Zero)
    expand     `tree.add_node`                            more than two players: max^n (Luckhardt and Irani 1986)
    evaluate   `simulate.request`, `simulate.evaluate`    several leaves a game: virtual loss (Segal 2010)
    back up    `simulate.expand`, `tree.backup`
    prove      `proof.prove_above`, `look_ahead`          MCTS-Solver with bounds (Winands et al. 2008)
    move       `decide.choose_move`, `kernel.commit`      temperature (Silver et al. 2017); then the subtree is kept

The end of the game is exact knowledge. It bounds the values above it: a proven node is a leaf from then on, an edge that a
proof rules out is neither followed nor played, and a search ends once its move is decided. The rules find wins in one before
any evaluation. With hidden information nothing is proven: an outcome holds in one world only.

Settings that replace parts of this:

    root noise               `simulate.prepare_root`: Dirichlet (Silver et al. 2018); forced playouts (Wu 2019, section 3.2)
    root_policy=gumbel       `gumbel`: sequential halving, improved policy (Danihelka et al. 2022, sections 3 and 4)
    prove_values=false       no proofs
    prove_replies=true       `look_ahead`: leaves and moves that lose to a win in one are known before their evaluation
    cache_positions          `cache`: a position reached by several games is evaluated once
    repetition               `repetition`: a recurring position is a leaf (Schulte 2021, section 4.1)
    information=determinise  `determinise`: one determinisation per simulation (Cowling et al. 2012, single observer)
    information=predict      `predict`: opponents play the predictions of an extra head (source there)

`block.SearchBlock` plays whole games; `position` searches single positions.
"""

from zerofleet.contracts.played import PlayedGame, SearchedMove
from zerofleet.search.block import Leaves, SearchBlock, SearchCounters
from zerofleet.search.driver import step
from zerofleet.search.kernel import EXTERNAL
from zerofleet.search.position import search_position, search_positions, search_state
from zerofleet.search.root import RootAnalysis
from zerofleet.search.settings import SearchSettings
from zerofleet.search.warmup import warm_up

__all__ = [
    "EXTERNAL",
    "Leaves",
    "PlayedGame",
    "RootAnalysis",
    "SearchBlock",
    "SearchCounters",
    "SearchSettings",
    "SearchedMove",
    "search_position",
    "search_positions",
    "search_state",
    "step",
    "warm_up",
]
