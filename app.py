"""Entry of the page: `streamlit run app.py`."""

from starlette.middleware import Middleware
from streamlit.starlette import App

from ui.hosts import KnownHosts
from ui.routes import routes
from ui.service import lifespan

app = App("ui/page.py", routes=routes(), lifespan=lifespan, middleware=[Middleware(KnownHosts)])
