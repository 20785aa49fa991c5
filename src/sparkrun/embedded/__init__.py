"""A small stand-alone inference server for machines without a container engine."""
