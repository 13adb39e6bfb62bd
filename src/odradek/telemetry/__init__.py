"""What the program tells about itself: events for people who read logs."""
