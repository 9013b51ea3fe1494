import pytest

from gape.core.errors import InputError
from gape.language.chat import PLAIN, Chat, chat_of
from gape.language.gguf import Header

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{%- for message in messages -%}"
    "<start_of_turn>{{ message['role'] }}\n{{ message['content'] | trim }}"
    "<end_of_turn>\n{%- endfor -%}{%- if add_generation_prompt -%}<start_of_turn>model\n{%- endif -%}"
)


def header(template: str | None, *, adds: bool = False) -> Header:
    return Header("llama", "small", template, "<bos>", "<eos>", adds)


class TestTemplates:
    def test_chatml(self) -> None:
        chat = chat_of(header(CHATML))
        assert chat.around("Hi {x}") == "<|im_start|>user\nHi {x}<|im_end|>\n<|im_start|>assistant\n"
        assert (
            chat_of(header(CHATML), "You write.").before
            == "<|im_start|>system\nYou write.<|im_end|>\n<|im_start|>user\n"
        )

    @pytest.mark.parametrize("adds", [True, False])
    def test_the_first_token_is_there_once(self, *, adds: bool) -> None:
        chat = chat_of(header(GEMMA, adds=adds))
        assert chat.before == ("" if adds else "<bos>") + "<start_of_turn>user\n"

    def test_no_template_is_plain_text(self) -> None:
        assert chat_of(header(None)) == PLAIN
        assert chat_of(header(None), "Forum posts.") == Chat("Forum posts.\n\n", PLAIN.after, PLAIN.stops)

    def test_the_date_is_fixed_and_nothing_is_thought(self) -> None:
        text = "{{ strftime_now('%d %b %Y') }}{% if enable_thinking %}<think>{% endif %}{{ messages[0]['content'] }}"
        assert chat_of(header(text)) == Chat("26 Jul 2024", "")


class TestUntrusted:
    @pytest.mark.parametrize(
        "template",
        [
            "{{ messages.__class__.__mro__ }}{{ messages[0]['content'] }}",
            "{{ cycler.__init__.__globals__.os.popen('id').read() }}{{ messages[0]['content'] }}",
            "{% for i in range(10000000) %}{% endfor %}{{ messages[0]['content'] }}",
            "{{ messages.append(1) }}{{ messages[0]['content'] }}",
            "{% include '/etc/passwd' %}{{ messages[0]['content'] }}",
            "{{ raise_exception('only with tools') }}",
            "{% if",
        ],
    )
    def test_what_a_template_may_not_do(self, template: str) -> None:
        with pytest.raises(InputError, match="the chat template of small cannot be used"):
            chat_of(header(template))

    @pytest.mark.parametrize("template", ["no prompt", "{{ messages[0]['content'] * 2 }}"])
    def test_the_prompt_must_be_there_once(self, template: str) -> None:
        with pytest.raises(InputError, match="does not repeat the user's turn exactly once"):
            chat_of(header(template))

    def test_a_template_of_a_megabyte(self) -> None:
        with pytest.raises(InputError, match="use another file"):
            chat_of(header("x" * 2**20))
