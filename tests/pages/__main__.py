"""Write what is written from the code into the pages of a checkout: ``make docs``."""

from pathlib import Path

from tests.pages.metrics import metrics_page, runbook_page
from tests.pages.settings import settings_page
from tests.pages.values import kubernetes_page
from tests.pages.values_schema import values_schema

ROOT = Path(__file__).parents[2]
PAGES = {
    "deploy/k8s/values.schema.json": values_schema,
    "docs/kubernetes.md": kubernetes_page,
    "docs/metrics.md": metrics_page,
    "docs/runbook.md": runbook_page,
    "docs/settings.md": settings_page,
}


def main():
    """Write each page that is not as it should be, and name it."""
    for name, written in PAGES.items():
        path = ROOT / name
        page = path.read_text("utf-8")
        if (told := written(page)) != page:
            path.write_text(told, "utf-8")
            print(name)


if __name__ == "__main__":
    main()
