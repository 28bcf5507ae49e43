"""Front ends: processes that speak gRPC to clients on one port, in front of the process that owns the device.

    clients ══ gRPC, host:port ══► front end 1 ──┐  frames on a socket pair: ModelInfer
            ══ (SO_REUSEPORT)  ══► front end 2 ──┼─────────────────────────────► device process: batcher, registry, metrics
                                                 └─ gRPC, unix socket: all other calls

frames      messages between a front end and the device process, and their transport
orders      settings of a front end, its first message
remote      front end's side: the data plane of the device process
forwarding  front end's side: every other call, as bytes
process     the front end: interceptors, port, drain (`python -m inference_server.fronts`)
link        device's side of one front end: evaluates, answers, counts
fleet       device's side of all: port, start, restart with back-off, drain

A front end without its device process ends at once; a device process starts a front end again that ended.
"""
