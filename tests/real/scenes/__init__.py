"""What the examples of README.md and docs/ run on: a module a scene, with `set_up` and a function for each step."""
