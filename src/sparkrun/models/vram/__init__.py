"""What a model takes of memory: weights, KV cache, and the speed that memory allows. Rules are pure; ``find`` and ``hub`` read."""
