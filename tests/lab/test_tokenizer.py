from phasemeter.lab.shape import VOCAB
from phasemeter.lab.tokenizer import BOS_ID, TOKEN_TEXTS, decode, encode_chat, encode_text


def test_every_token_has_its_own_visible_text():
    """No token is blank, a control character, a combining mark, or ambiguous."""
    assert len(set(TOKEN_TEXTS)) == len(TOKEN_TEXTS) == VOCAB
    assert all(text.isprintable() and not text.isspace() for text in TOKEN_TEXTS)


def test_text_becomes_its_bytes():
    """A begin mark, then UTF-8; a surrogate without UTF-8 becomes a question mark."""
    assert encode_text("aé") == [BOS_ID, 0x61, 0xC3, 0xA9]
    assert encode_text("\ud800") == [BOS_ID, ord("?")]
    assert decode([0x61, 0x20, BOS_ID]) == "aĠ<bos>"


def test_chat_is_one_line_a_message():
    """Roles and contents, then the assistant's turn."""
    ids = encode_chat([("system", "s"), ("user", "u")])

    assert bytes(ids[1:]) == b"system: s\nuser: u\nassistant:"
