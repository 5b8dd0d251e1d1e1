"""The page: a Streamlit script around one component, its routes, and the jobs behind it."""
