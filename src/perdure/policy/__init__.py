"""What perdure decides. Pure: a snapshot in, a decision out.

- `outcome`: how an attempt ended. `counting`: what counts against a task, and what is progress.
- `resuming`: where a lineage goes on from. `stops`: what is stopped. `states`: how states add up.
- `snapshot`, `launching`, `turn`: the plan of a turn. `resources`: what fits on a host.
- `retention`: what is pruned. `notice`: the notice period. `interval`: how often to save.
- `diagrams`: docs/states.md, drawn from the tables above.
"""
