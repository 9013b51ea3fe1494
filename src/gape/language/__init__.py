"""Language models behind one protocol."""

from gape.language.request import Completion, LanguageModel, Request

__all__ = ["Completion", "LanguageModel", "Request"]
