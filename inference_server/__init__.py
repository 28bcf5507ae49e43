"""The inference server: evaluations over KServe v2 gRPC; see `inference_server.server`."""
