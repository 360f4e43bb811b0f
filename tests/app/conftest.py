"""A small library of painted photos behind the app, as a client in the same process."""

import json
import shutil
import threading
import time
from contextlib import contextmanager

import pytest
from tests.photos.world import calibrated, paint

from unseen.photos.library import PhotoLibrary

for package in ("fastapi", "prometheus_client", "multipart", "httpx", "PIL", "onnxruntime", "onnx"):
    pytest.importorskip(package)
uvicorn = pytest.importorskip("uvicorn")
TestClient = pytest.importorskip("starlette.testclient").TestClient
create_app = pytest.importorskip("unseen.app.server").create_app

LOCAL = "http://127.0.0.1"


@contextmanager
def client_of(*arguments, base=LOCAL, **options):
    with TestClient(create_app(*arguments, **options), base, raise_server_exceptions=False) as client:
        yield client


def painted(folder, *mixed):
    """Twelve photos of one colour each, three of four colours, in two folders; one has a copy. And mixed ones."""
    model = calibrated()
    for i in range(12):
        place = folder / "photos" / ("a" if i % 2 else "b")
        place.mkdir(parents=True, exist_ok=True)
        paint(place / f"{i:02d}.jpg", [("red", "green", "blue", "yellow")[i % 4]], i)
    for names in mixed:
        paint(folder / "photos" / f"{'-'.join(names)}.jpg", names)
    (folder / "photos" / "copy.jpg").write_bytes((folder / "photos" / "b" / "00.jpg").read_bytes())
    made = PhotoLibrary.open(folder / "library", create=True, backbone=str(model.backbone.name))
    made.index([folder / "photos"])
    return made


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return painted(tmp_path_factory.mktemp("app"))


@pytest.fixture(scope="module")
def client(library):
    with client_of(library, calibrated()) as client:
        client.put("/v1/words", json={"text": "red\ngreen\nblue\nyellow\ncold > cyan\n"})
        yield client


@pytest.fixture(scope="module")
def alone():
    """Client of an app without a library."""
    with client_of(model=calibrated()) as client:
        yield client


@contextmanager
def server_of(*arguments, **options):
    """Address of an app that listens in another thread."""
    config = uvicorn.Config(create_app(*arguments, **options), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30.0)


@contextmanager
def chromium():
    """Chromium without a window, driven by chromedriver."""
    webdriver = pytest.importorskip("selenium.webdriver")
    places = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if missing := [name for name, place in places.items() if place is None]:
        pytest.skip(f"not installed: {', '.join(missing)}; apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = places["chromium"]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(places["chromedriver"]))
    driver.set_script_timeout(120)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


def error_of(response, status):
    """Code of an answer with an error, whose shape is checked."""
    assert response.status_code == status, response.text
    error = json.loads(response.text)["error"]
    assert set(error) == {"code", "message"}
    assert error["message"].endswith(".")
    return error["code"]
