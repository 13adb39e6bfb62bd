"""The broker process: listeners, dispatch, handlers, and the composition root that ties them together."""
