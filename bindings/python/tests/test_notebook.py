"""The notebook runs, and shows what its text says."""

import pathlib

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

NOTEBOOK = pathlib.Path(__file__).parents[1] / "notebooks" / "paper.ipynb"


def test_the_paper_in_a_notebook(monkeypatch):
    monkeypatch.setenv("CASCADE_NOTEBOOK_LIMIT", "8")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is committed without outputs"
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.get("text", "") for output in outputs)
    assert text.count("paper ") == 8
    assert "CS Drafting, base + Max-Gram" in text
    assert any("image/png" in output.get("data", {}) for output in outputs)
