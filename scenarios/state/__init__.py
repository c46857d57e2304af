"""The state of a run at one event, folded from the events up to it, compared, and shown.

- :mod:`~streamproof.scenarios.state.fold` gives the :class:`~streamproof.sim.run_state.Moment`
  after any event of a run. Each kind of events declares its effect in
  :mod:`streamproof.sim.event_kinds`.
- :mod:`~streamproof.scenarios.state.diff` says in words what has changed between two moments.
- :mod:`~streamproof.scenarios.state.tables` shows one moment as tables.
- :mod:`~streamproof.scenarios.state.walk` is the interactive walk through a run, made of these
  three.

Each module imports only those before it in this list.
"""
