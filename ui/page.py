"""The page's script: reads the address once, hands requests of the component to the supervisor.

The component shows everything. It is given digests, tokens and the language, never a trace: what
passes through `data` costs time at every rerun.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st
from streamlit.components import v2 as components

from ui import inbox
from ui.language import LANGUAGES, sentence
from ui.routes import styles, version
from ui.service import UPLOAD_LIMIT, service

# The newline tells Streamlit that this is code, not the name of a file.
MODULE = """
const at = new URL("ui/{version}/explorer/app.mjs", document.baseURI).href;
const {{ mount }} = await import(at);
export default mount;
"""


def take_request() -> None:
    """A request of the component: submit the job, or keep why it was refused."""
    state = st.session_state
    asked: object = state["explorer"].get("request")
    if not isinstance(asked, Mapping):
        return
    last = state.get("answer")
    if last is not None and last["nonce"] == asked.get("nonce"):
        # Asked again because no answer came: the same one, as news to the component.
        state["answer"] = {**last, "again": last.get("again", 0) + 1}
        return
    request = inbox.read(asked)
    answer: dict[str, object] = {"nonce": asked.get("nonce")}
    running = service()
    if isinstance(request, inbox.Refused):
        answer |= {"error": {"message": request.message, "parameters": dict(request.parameters)}}
    elif request["command"] == "targets":
        answer |= {"token": running.supervisor.once(request).token}
    else:
        running.blobs.prune()
        background = asked.get("background") is True
        answer |= {"token": running.supervisor.submit(request, background=background).token}
    state["answer"] = answer


def main() -> None:
    state = st.session_state
    if "view" not in state:
        address = st.query_params.to_dict()
        state["view"] = inbox.read_view(address)
        state["language"] = "en" if address.get("lang") == "en" else LANGUAGES[0]
    language: str = state["language"]
    st.set_page_config(page_title=sentence(language, "page.title"), layout="wide")
    explorer = components.component(
        "explorer",
        html='<div class="explorer-host"></div>',
        css=styles(),
        js=MODULE.format(version=version()),
    )
    explorer(
        key="explorer",
        data={
            "language": language,
            "version": version(),
            "view": state["view"],
            "answer": state.get("answer"),
            "uploadLimit": UPLOAD_LIMIT,
        },
        on_request_change=take_request,
    )


main()
