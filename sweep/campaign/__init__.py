"""How a study is computed: what is lacking, what it costs, its tasks, and who computes them."""
