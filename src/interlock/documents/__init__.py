"""Formats that playbooks share, and the store that reads and writes them."""

from interlock.documents.document import Document, DocumentState
from interlock.documents.facts import FileFacts
from interlock.documents.json import DuplicateKey, JsonDocument, JsonInvalid
from interlock.documents.json import load as load_json
from interlock.documents.markdown import Fence, Frontmatter, Sections, split_frontmatter
from interlock.documents.paths import inside, plain_parts, relative
from interlock.documents.plain import Key, pointer
from interlock.documents.store import LIMIT, EditedMeanwhile, Store, Written
from interlock.documents.words import few, one_line, stamp
from interlock.documents.yaml import YamlDocument
from interlock.documents.yaml import load as load_yaml
from interlock.documents.yaml_state import FieldChanges, edited_yaml, read_yaml
from interlock.documents.yaml_text import dump as render_yaml

__all__ = [
    "LIMIT",
    "Document",
    "DocumentState",
    "DuplicateKey",
    "EditedMeanwhile",
    "Fence",
    "FieldChanges",
    "FileFacts",
    "Frontmatter",
    "JsonDocument",
    "JsonInvalid",
    "Key",
    "Sections",
    "Store",
    "Written",
    "YamlDocument",
    "edited_yaml",
    "few",
    "inside",
    "load_json",
    "load_yaml",
    "one_line",
    "plain_parts",
    "pointer",
    "read_yaml",
    "relative",
    "render_yaml",
    "split_frontmatter",
    "stamp",
]
