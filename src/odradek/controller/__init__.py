"""The controller: a state machine that elects leaders, and the runtime that executes its actions."""
