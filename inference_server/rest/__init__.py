"""KServe v2 over HTTP/1.1, beside gRPC: the same data plane, checks, roles, bounds and error texts.

listener      accepts connections, within bounds; TLS; drain
connection    requests of one connection, one after another; time limits (h11 reads and writes the protocol)
routes        paths, roles and bounds; one call of the KServe servicer or the data plane each
infer_bodies  bodies of `infer`: JSON, and the binary tensor data extension
answers       answers, errors as statuses with JSON, protobuf messages as JSON
"""
