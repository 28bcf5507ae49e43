"""The names on /metrics are a contract: this list is what dashboards read."""

import pytest

from zerofleet.telemetry import metrics

GOLDEN = {
    "selfplay_worker": """
        zerofleet_adopted_version zerofleet_distinct_openings_ratio zerofleet_eval_batch_size zerofleet_eval_latency_seconds
        zerofleet_eval_retries_total zerofleet_evaluations_total zerofleet_export_to_adoption_seconds
        zerofleet_games_abandoned_total zerofleet_games_active zerofleet_games_ended_total zerofleet_games_finished_total
        zerofleet_games_published_total zerofleet_new_positions_ratio zerofleet_playing_network_age_seconds
        zerofleet_publish_queue_games zerofleet_resign_false_ratio zerofleet_resign_threshold zerofleet_resigned_games_ratio
        zerofleet_selfplay_moves_total zerofleet_selfplay_openings_total zerofleet_selfplay_samples_total
        zerofleet_target_entropy_nats zerofleet_tls_certificate_expiry_timestamp_seconds zerofleet_wins_in_one_total
    """,
    "inference_server": """
        grpc_server_handled_total grpc_server_handling_seconds grpc_server_started_total zerofleet_grpc_connections
        zerofleet_grpc_connections_refused_total zerofleet_inference_batch_size
        zerofleet_inference_backend zerofleet_inference_device zerofleet_inference_device_busy_seconds_total
        zerofleet_inference_device_processor_seconds_total
        zerofleet_inference_front_ends zerofleet_inference_front_positions_total zerofleet_inference_front_requests_total
        zerofleet_inference_front_restarts_total
        zerofleet_inference_http_handling_seconds zerofleet_inference_http_requests_total zerofleet_inference_positions_total
        zerofleet_inference_queue_positions zerofleet_inference_queue_seconds zerofleet_inference_refused_total
        zerofleet_inference_shared_memory_clients zerofleet_inference_version_loaded zerofleet_model_loads_total
        zerofleet_tls_certificate_expiry_timestamp_seconds
    """,
    "trainer": """
        zerofleet_candidate_version zerofleet_candidates_refused_total zerofleet_candidates_total
        zerofleet_dead_letters_lost_total
        zerofleet_intake_wait_seconds_total
        zerofleet_records_accepted_total
        zerofleet_records_duplicate_total zerofleet_records_rejected_total zerofleet_replay_games_ever
        zerofleet_replay_samples zerofleet_replay_samples_ever zerofleet_samples_reused_ratio zerofleet_stream_dead_entries
        zerofleet_stream_lag_entries zerofleet_stream_oldest_pending_seconds zerofleet_stream_pending_entries
        zerofleet_suspect_workers zerofleet_tls_certificate_expiry_timestamp_seconds
        zerofleet_train_busy_seconds_total zerofleet_train_held_out_ratio
        zerofleet_train_illegal_mass_ratio zerofleet_train_learning_rate zerofleet_train_loss
        zerofleet_train_policy_entropy_nats
        zerofleet_train_samples_total zerofleet_train_skipped_steps_total zerofleet_train_step zerofleet_train_steps_total
        zerofleet_train_wait_seconds_total
    """,
    "gatekeeper": """
        grpc_server_handled_total grpc_server_handling_seconds grpc_server_started_total zerofleet_champion_elo
        zerofleet_champion_version zerofleet_eval_batch_size zerofleet_eval_latency_seconds zerofleet_eval_retries_total
        zerofleet_evaluations_total zerofleet_gate_candidate_version zerofleet_gate_evaluations_share
        zerofleet_gate_evaluations_total zerofleet_gate_games_total zerofleet_gate_holds_candidates zerofleet_gate_llr
        zerofleet_gate_llr_bound zerofleet_gate_match_games zerofleet_gate_match_groups zerofleet_gate_queue_candidates
        zerofleet_gate_verdicts_total zerofleet_gatekeeper_refused_total zerofleet_grpc_connections
        zerofleet_grpc_connections_refused_total
        zerofleet_ladder_elo zerofleet_model_age_seconds zerofleet_model_info zerofleet_models_pruned_total
        zerofleet_tls_certificate_expiry_timestamp_seconds
    """,
}


@pytest.mark.parametrize("service", sorted(GOLDEN))
def test_the_exposed_metric_names_equal_the_golden_list(service: str) -> None:
    assert metrics.names(service) == tuple(sorted(GOLDEN[service].split()))


@pytest.mark.parametrize("service", sorted(GOLDEN))
def test_the_metrics_page_contains_the_declared_names_and_the_process(service: str) -> None:
    page = metrics.exposition(service).decode()
    for name in metrics.names(service):
        assert f"# TYPE {name} " in page
    assert "process_resident_memory_bytes" in page


def test_a_service_does_not_show_the_metrics_of_another() -> None:
    assert "zerofleet_train_steps_total" not in metrics.exposition("selfplay_worker").decode()


# The names, kinds and labels that were agreed on beforehand, and who has them.
AGREED = """
    selfplay_worker  counter   zerofleet_games_finished_total{game,outcome}
    selfplay_worker  counter   zerofleet_selfplay_moves_total
    selfplay_worker  counter   zerofleet_evaluations_total{source}
    gatekeeper       counter   zerofleet_evaluations_total{source}
    selfplay_worker  histogram zerofleet_eval_batch_size
    gatekeeper       histogram zerofleet_eval_batch_size
    selfplay_worker  histogram zerofleet_eval_latency_seconds
    gatekeeper       histogram zerofleet_eval_latency_seconds
    trainer          counter   zerofleet_records_rejected_total{reason}
    trainer          counter   zerofleet_records_duplicate_total
    trainer          gauge     zerofleet_stream_lag_entries
    trainer          gauge     zerofleet_stream_pending_entries
    trainer          gauge     zerofleet_stream_oldest_pending_seconds
    trainer          counter   zerofleet_train_steps_total
    trainer          gauge     zerofleet_train_loss{head}
    trainer          gauge     zerofleet_replay_samples
    trainer          gauge     zerofleet_samples_reused_ratio
    gatekeeper       counter   zerofleet_gate_games_total{result}
    gatekeeper       gauge     zerofleet_gate_llr
    gatekeeper       gauge     zerofleet_model_info{version,sha256}
    gatekeeper       gauge     zerofleet_model_age_seconds
    gatekeeper       gauge     zerofleet_champion_elo
    inference_server counter   grpc_server_started_total{grpc_type,grpc_service,grpc_method}
    gatekeeper       counter   grpc_server_started_total{grpc_type,grpc_service,grpc_method}
    inference_server counter   grpc_server_handled_total{grpc_type,grpc_service,grpc_method,grpc_code}
    gatekeeper       counter   grpc_server_handled_total{grpc_type,grpc_service,grpc_method,grpc_code}
    inference_server histogram grpc_server_handling_seconds{grpc_type,grpc_service,grpc_method}
    gatekeeper       histogram grpc_server_handling_seconds{grpc_type,grpc_service,grpc_method}
"""


@pytest.mark.parametrize("line", AGREED.strip().splitlines(), ids=lambda line: " ".join(line.split()))
def test_a_service_exposes_the_agreed_metrics(line: str) -> None:
    service, kind, text = line.split()
    name, _, labels = text.rstrip("}").partition("{")
    assert (kind, tuple(labels.split(",")) if labels else ()) == metrics.declared(service)[name]


@pytest.mark.parametrize("service", sorted(GOLDEN))
def test_counters_alone_end_in_total_and_no_label_identifies_a_game(service: str) -> None:
    for name, (kind, labels) in metrics.declared(service).items():
        assert name.endswith("_total") == (kind == "counter")
        assert not {"uid", "game_uid", "request_id", "trace_id", "worker", "worker_id"} & set(labels)
