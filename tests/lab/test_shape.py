from phasemeter.lab.shape import ModelShape, shape_of

TOY = ModelShape(layers=2, hidden=8, heads=4, kv_heads=2, head_dim=3, ffn=5, vocab=11)


def test_parameters_of_a_toy_model():
    """qkv 8 x (4+2+2)*3 = 192, out 12 x 8 = 96, ffn 3 * 8 * 5 = 120; two layers."""
    assert TOY.block_parameters == 2 * (192 + 96 + 120)
    assert TOY.group == 2


def test_flops_count_causal_attention_and_asked_logits_only():
    """Three tokens on two cached attend to 3 + 4 + 5 tokens, 4 * layers * heads * dim each."""
    linear = 2 * 816 * 3
    attention = 4 * 2 * 4 * 3 * (3 + 4 + 5)

    assert TOY.forward_flops(3, 2, 0) == linear + attention
    assert TOY.forward_flops(3, 2, 1) == linear + attention + 2 * 8 * 11


def test_chunks_cost_what_the_whole_costs():
    """Cutting a prompt changes no attention or linear work."""
    whole = TOY.forward_flops(10, 0, 1)

    assert TOY.forward_flops(4, 0, 0) + TOY.forward_flops(6, 4, 1) == whole


def test_base_model_is_about_24_million_parameters():
    """Large enough to be memory-bound in decode, small enough for a laptop."""
    assert 20e6 < shape_of("base").block_parameters < 30e6
