"""Readers of records: from a message of the stream to a checked game and its samples.

base        contract, and the reader in the calling thread
processes   reader in processes of its own, so that the learner's thread need not wait for the interpreter
process     loop of such a process; `__main__` is its command
messages    messages between the two
"""
