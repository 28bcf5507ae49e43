"""Metrics: one table of every name that the fleet exposes.

Names are a contract with dashboards and alerts: renaming one is a breaking change, guarded by a golden test. Base units,
`_total` on counters, low-cardinality labels, never a uid as a label. Each entry lists the services that use it; a service
exposes only its own metrics.

    metrics.GAMES_FINISHED.labels(game="connect_four", outcome="first_player").inc()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

__all__ = ["CONTENT_TYPE", "count_eval_retry", "declared", "exposition", "names"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

WORKER, SERVER, TRAINER, GATEKEEPER = "selfplay_worker", "inference_server", "trainer", "gatekeeper"
EVERY = (WORKER, SERVER, TRAINER, GATEKEEPER)

_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_AGE_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)

_AnyMetric = TypeVar("_AnyMetric", Counter, Gauge, Histogram)
_table: list[tuple[tuple[str, ...], Counter | Gauge | Histogram]] = []
_process = CollectorRegistry()
ProcessCollector(registry=_process)
PlatformCollector(registry=_process)


def _used_by(services: tuple[str, ...], metric: _AnyMetric) -> _AnyMetric:
    _table.append((services, metric))
    return metric


def _counter(name: str, about: str, *labels: str, by: tuple[str, ...]) -> Counter:
    return _used_by(by, Counter(name, about, labels, registry=None))


def _gauge(name: str, about: str, *labels: str, by: tuple[str, ...]) -> Gauge:
    return _used_by(by, Gauge(name, about, labels, registry=None))


def _histogram(name: str, about: str, *labels: str, by: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
    return _used_by(by, Histogram(name, about, labels, registry=None, buckets=buckets))


# Self-play. `outcome`: first_player to sixth_player, draw.
GAMES_FINISHED = _counter("zerofleet_games_finished_total", "Finished games", "game", "outcome", by=(WORKER,))
GAMES_PUBLISHED = _counter("zerofleet_games_published_total", "Games accepted by the stream", "game", by=(WORKER,))
GAMES_ABANDONED = _counter(
    "zerofleet_games_abandoned_total",
    "Games abandoned unfinished (stale, version_gone, drain), or finished and not in the stream (unpublished, refused)",
    "reason",
    by=(WORKER,),
)
GAMES_ACTIVE = _gauge("zerofleet_games_active", "Games being played", by=(WORKER,))
SELFPLAY_MOVES = _counter("zerofleet_selfplay_moves_total", "Moves chosen in self-play", by=(WORKER,))
PUBLISH_QUEUE = _gauge("zerofleet_publish_queue_games", "Finished games waiting for the stream", by=(WORKER,))
ADOPTED_VERSION = _gauge("zerofleet_adopted_version", "Model version of new games", by=(WORKER,))
RESIGN_THRESHOLD = _gauge("zerofleet_resign_threshold", "Value below which a player resigns; -1 never", by=(WORKER,))
RESIGN_FALSE_RATE = _gauge(
    "zerofleet_resign_false_ratio", "Share of would-be resignations in control games that were not lost", by=(WORKER,)
)

# Diagnostics of self-play. `ending`: result, cut, resigned, soft_resigned. `weight`: full, reduced. `outcome`: taken,
# overlooked. `kind`: uniform, deep, forked, balanced. Ratios and means are those of the latest games of a worker.
GAMES_ENDED = _counter("zerofleet_games_ended_total", "Finished games by ending", "ending", by=(WORKER,))
RESIGNED_GAMES = _gauge("zerofleet_resigned_games_ratio", "Share of games resigned, softly or not", by=(WORKER,))
OPENINGS = _counter("zerofleet_selfplay_openings_total", "Games begun, by kind of opening", "kind", by=(WORKER,))
SELFPLAY_SAMPLES = _counter("zerofleet_selfplay_samples_total", "Policy targets of finished games", "weight", by=(WORKER,))
WINS_IN_ONE = _counter("zerofleet_wins_in_one_total", "Moves where one would win at once", "outcome", by=(WORKER,))
TARGET_ENTROPY = _gauge("zerofleet_target_entropy_nats", "Mean entropy of the policy targets", by=(WORKER,))
DISTINCT_OPENINGS = _gauge("zerofleet_distinct_openings_ratio", "Different lines of the first 8 plies per game", by=(WORKER,))
NEW_POSITIONS = _gauge("zerofleet_new_positions_ratio", "Share of positions new among the latest 50,000", by=(WORKER,))
NETWORK_AGE = _gauge("zerofleet_playing_network_age_seconds", "Time since the export of the adopted version", by=(WORKER,))
ADOPTION = _histogram(
    "zerofleet_export_to_adoption_seconds",
    "Time from the export of a version to its adoption",
    by=(WORKER,),
    buckets=_AGE_BUCKETS,
)

# Certificates.
CERTIFICATE_EXPIRY = _gauge(
    "zerofleet_tls_certificate_expiry_timestamp_seconds",
    "End of the certificate in use, in seconds since the epoch; 0 without one",
    by=EVERY,
)

# Evaluations on the client side. `source`: network, cache.
EVALUATIONS = _counter("zerofleet_evaluations_total", "Evaluated leaves", "source", by=(WORKER, GATEKEEPER))
EVAL_BATCH_SIZE = _histogram(
    "zerofleet_eval_batch_size", "Leaves in one request", by=(WORKER, GATEKEEPER), buckets=_BATCH_BUCKETS
)
EVAL_LATENCY = _histogram(
    "zerofleet_eval_latency_seconds", "Time from request to reply", by=(WORKER, GATEKEEPER), buckets=_LATENCY_BUCKETS
)
EVAL_RETRIES = _counter("zerofleet_eval_retries_total", "Requests retried", "reason", by=(WORKER, GATEKEEPER))

# Inference server. `priority`: 1 for matches, evaluations and people, 2 for self-play.
INFERENCE_POSITIONS = _counter("zerofleet_inference_positions_total", "Positions evaluated", "model", by=(SERVER,))
INFERENCE_BATCH_SIZE = _histogram(
    "zerofleet_inference_batch_size", "Positions in one batch of the device", by=(SERVER,), buckets=_BATCH_BUCKETS
)
INFERENCE_QUEUE = _gauge("zerofleet_inference_queue_positions", "Positions waiting for the device", by=(SERVER,))
INFERENCE_QUEUE_TIME = _histogram(
    "zerofleet_inference_queue_seconds",
    "Time a request waited for the device",
    "priority",
    by=(SERVER,),
    buckets=_LATENCY_BUCKETS,
)
INFERENCE_BUSY = _counter("zerofleet_inference_device_busy_seconds_total", "Time the device was busy", by=(SERVER,))
INFERENCE_PROCESSOR = _counter(
    "zerofleet_inference_device_processor_seconds_total", "Processor time of the thread that evaluates", by=(SERVER,)
)
INFERENCE_DEVICE = _gauge(
    "zerofleet_inference_device", "1 for the device in use, such as cpu or cuda:0", "device", by=(SERVER,)
)
INFERENCE_LOADED = _gauge("zerofleet_inference_version_loaded", "1 for each version served", "model", "version", by=(SERVER,))
INFERENCE_BACKEND = _gauge(
    "zerofleet_inference_backend",
    "1 for the backend and number format of each version served",
    "model",
    "version",
    "backend",
    "precision",
    by=(SERVER,),
)
INFERENCE_REGIONS = _gauge("zerofleet_inference_shared_memory_clients", "Clients connected by shared memory", by=(SERVER,))
INFERENCE_HTTP = _counter("zerofleet_inference_http_requests_total", "Requests over HTTP", "route", "status", by=(SERVER,))
INFERENCE_HTTP_HANDLING = _histogram(
    "zerofleet_inference_http_handling_seconds",
    "Time from the head of an HTTP request to its answer",
    "route",
    by=(SERVER,),
    buckets=_LATENCY_BUCKETS,
)
INFERENCE_REFUSED = _counter("zerofleet_inference_refused_total", "Requests refused", "reason", by=(SERVER,))
FRONT_ENDS = _gauge("zerofleet_inference_front_ends", "Front ends that listen; 0 without any", by=(SERVER,))
FRONT_REQUESTS = _counter("zerofleet_inference_front_requests_total", "Requests by front end", "front", by=(SERVER,))
FRONT_POSITIONS = _counter("zerofleet_inference_front_positions_total", "Positions by front end", "front", by=(SERVER,))
FRONT_RESTARTS = _counter("zerofleet_inference_front_restarts_total", "Front ends started again", "front", by=(SERVER,))
MODEL_LOADS = _counter("zerofleet_model_loads_total", "Model loads", "model", "outcome", by=(SERVER,))

# gRPC servers, with the names of py-grpc-prometheus.
_GRPC = ("grpc_type", "grpc_service", "grpc_method")
_GRPC_SERVERS = (SERVER, GATEKEEPER)
GRPC_STARTED = _counter("grpc_server_started_total", "RPCs started", *_GRPC, by=_GRPC_SERVERS)
GRPC_HANDLED = _counter("grpc_server_handled_total", "RPCs completed", *_GRPC, "grpc_code", by=_GRPC_SERVERS)
GRPC_HANDLING = _histogram(
    "grpc_server_handling_seconds", "Time in the handler", *_GRPC, by=_GRPC_SERVERS, buckets=_LATENCY_BUCKETS
)

GRPC_CONNECTIONS = _gauge("zerofleet_grpc_connections", "Open network connections for gRPC", by=_GRPC_SERVERS)
GRPC_CONNECTIONS_REFUSED = _counter(
    "zerofleet_grpc_connections_refused_total", "Network connections beyond the share of their address", by=_GRPC_SERVERS
)
GATEKEEPER_REFUSED = _counter("zerofleet_gatekeeper_refused_total", "Requests refused", "reason", by=(GATEKEEPER,))

# The stream on the consumer side, and the replay store.
RECORDS_ACCEPTED = _counter("zerofleet_records_accepted_total", "Games stored", by=(TRAINER,))
RECORDS_REJECTED = _counter("zerofleet_records_rejected_total", "Games refused and dead-lettered", "reason", by=(TRAINER,))
RECORDS_DUPLICATE = _counter("zerofleet_records_duplicate_total", "Games delivered again", by=(TRAINER,))
INTAKE_WAIT = _counter(
    "zerofleet_intake_wait_seconds_total", "Time without intake, for a learner that is behind", by=(TRAINER,)
)
SUSPECT_WORKERS = _gauge("zerofleet_suspect_workers", "Workers whose games are gross outliers", by=(TRAINER,))
STREAM_LAG = _gauge("zerofleet_stream_lag_entries", "Games not yet delivered", by=(TRAINER,))
STREAM_PENDING = _gauge("zerofleet_stream_pending_entries", "Games delivered and not yet acknowledged", by=(TRAINER,))
STREAM_DEAD = _gauge("zerofleet_stream_dead_entries", "Games in the dead-letter queue", by=(TRAINER,))
DEAD_LETTERS_LOST = _counter("zerofleet_dead_letters_lost_total", "Bad games whose dead letter Redis rejected", by=(TRAINER,))
STREAM_OLDEST = _gauge("zerofleet_stream_oldest_pending_seconds", "Age of the oldest unacknowledged game", by=(TRAINER,))
REPLAY_SAMPLES = _gauge("zerofleet_replay_samples", "Samples in the training window", by=(TRAINER,))
REPLAY_SAMPLES_TOTAL = _gauge("zerofleet_replay_samples_ever", "Samples ever stored", by=(TRAINER,))
REPLAY_GAMES = _gauge("zerofleet_replay_games_ever", "Games ever stored", by=(TRAINER,))
SAMPLES_REUSED = _gauge("zerofleet_samples_reused_ratio", "Mean number of times a sample was trained on", by=(TRAINER,))

# Learner. `head`: policy, value, extra heads by name, and total, their weighted sum. `measure`: accuracy, recall_1, recall_6.
TRAIN_STEPS = _counter("zerofleet_train_steps_total", "Steps taken by this process", by=(TRAINER,))
TRAIN_STEP = _gauge("zerofleet_train_step", "Step number, including earlier sessions of the run", by=(TRAINER,))
TRAIN_SAMPLES = _counter("zerofleet_train_samples_total", "Samples trained on", by=(TRAINER,))
TRAIN_SKIPPED = _counter("zerofleet_train_skipped_steps_total", "Steps skipped because of a non-finite gradient", by=(TRAINER,))
TRAIN_LOSS = _gauge("zerofleet_train_loss", "Loss, averaged over recent steps", "head", by=(TRAINER,))
TRAIN_POLICY_ENTROPY = _gauge(
    "zerofleet_train_policy_entropy_nats", "Mean entropy of the network's policy over legal actions", by=(TRAINER,)
)
TRAIN_ILLEGAL_MASS = _gauge(
    "zerofleet_train_illegal_mass_ratio", "Probability on illegal actions, with a policy over all", by=(TRAINER,)
)
TRAIN_HELD_OUT = _gauge(
    "zerofleet_train_held_out_ratio",
    "Share of results and moves of held-out games predicted",
    "measure",
    by=(TRAINER,),
)
TRAIN_RATE = _gauge("zerofleet_train_learning_rate", "Learning rate", by=(TRAINER,))
TRAIN_WAIT = _counter("zerofleet_train_wait_seconds_total", "Time the learner waited for games", by=(TRAINER,))
TRAIN_BUSY = _counter("zerofleet_train_busy_seconds_total", "Time the learner trained", by=(TRAINER,))
CANDIDATES = _counter("zerofleet_candidates_total", "Candidates exported", by=(TRAINER,))
CANDIDATES_REFUSED = _counter(
    "zerofleet_candidates_refused_total",
    "Candidates that the gatekeeper or the store refused for good",
    "reason",
    by=(TRAINER,),
)
CANDIDATE_VERSION = _gauge("zerofleet_candidate_version", "Newest exported version", by=(TRAINER,))

# Gatekeeper. `result`: win, draw, loss of the candidate. `verdict`: promoted, rejected, broken, superseded. `purpose`: match,
# for matches and measurements of candidates; ladder. These evaluations count in `zerofleet_evaluations_total` as well.
GATE_GAMES = _counter("zerofleet_gate_games_total", "Match games played", "result", by=(GATEKEEPER,))
GATE_MATCH_GAMES = _gauge("zerofleet_gate_match_games", "Games of the current match", "result", by=(GATEKEEPER,))
GATE_MATCH_GROUPS = _gauge(
    "zerofleet_gate_match_groups",
    "Complete pairs of games of the current match by the candidate's share of the points, in quarters",
    "share",
    by=(GATEKEEPER,),
)
GATE_LLR = _gauge("zerofleet_gate_llr", "Log-likelihood ratio of the current match", by=(GATEKEEPER,))
GATE_LLR_BOUND = _gauge("zerofleet_gate_llr_bound", "Decision bound of the sequential test", "side", by=(GATEKEEPER,))
GATE_CANDIDATE = _gauge("zerofleet_gate_candidate_version", "Version in the current match; 0 between matches", by=(GATEKEEPER,))
GATE_VERDICTS = _counter("zerofleet_gate_verdicts_total", "Candidates decided", "verdict", by=(GATEKEEPER,))
GATE_SHARE = _gauge(
    "zerofleet_gate_evaluations_share", "Share of all evaluations spent on paced measurements", by=(GATEKEEPER,)
)
GATE_EVALUATIONS = _counter(
    "zerofleet_gate_evaluations_total", "Evaluations of the gatekeeper's games", "purpose", by=(GATEKEEPER,)
)
GATE_HOLDS = _gauge(
    "zerofleet_gate_holds_candidates",
    "1 while candidates are measured before their promotion, after one was found weaker",
    by=(GATEKEEPER,),
)
GATE_QUEUE = _gauge("zerofleet_gate_queue_candidates", "Candidates waiting for a match", by=(GATEKEEPER,))
CHAMPION_VERSION = _gauge("zerofleet_champion_version", "Version of the champion; 0 before the first", by=(GATEKEEPER,))
CHAMPION_ELO = _gauge("zerofleet_champion_elo", "Rating of the champion; the random agent is 0", by=(GATEKEEPER,))
LADDER_ELO = _gauge("zerofleet_ladder_elo", "Rating of a classical rung", "rung", by=(GATEKEEPER,))
MODELS_PRUNED = _counter("zerofleet_models_pruned_total", "Old versions deleted", by=(GATEKEEPER,))
MODEL_INFO = _gauge("zerofleet_model_info", "1 for the champion", "version", "sha256", by=(GATEKEEPER,))
MODEL_AGE = _gauge("zerofleet_model_age_seconds", "Time since the champion was promoted", by=(GATEKEEPER,))


class _Exposed:
    """Metrics of one service in the form that `generate_latest` expects."""

    def __init__(self, service: str) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        for services, metric in _table:
            if self._service in services:
                yield from metric.collect()
        yield from _process.collect()


def count_eval_retry(failure: Exception) -> None:
    """Count a retry after `failure`."""
    EVAL_RETRIES.labels(reason=type(failure).__name__).inc()


def exposition(service: str) -> bytes:
    """Return the /metrics page of a service in the Prometheus text format."""
    exposed: Any = _Exposed(service)
    return generate_latest(exposed)


def names(service: str) -> tuple[str, ...]:
    """Return the metric names of a service as declared (counters with `_total`), sorted."""
    return tuple(sorted(declared(service)))


def declared(service: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return kind (counter, gauge, histogram) and labels of each metric of a service, by name."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for services, metric in _table:
        if service in services:
            suffix = "_total" if isinstance(metric, Counter) else ""
            for family in metric.describe():
                found[family.name + suffix] = (family.type, tuple(metric._labelnames))
    return found
