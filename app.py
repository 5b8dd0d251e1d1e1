"""Entry of the page: `streamlit run app.py`."""

from streamlit.starlette import App

from ui.routes import routes
from ui.service import lifespan

app = App("ui/page.py", routes=routes(), lifespan=lifespan)
