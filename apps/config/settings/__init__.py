"""Django's settings, split by topic. Values that differ between machines come from environment variables."""

import gc

from apps.config.settings.buying import *  # noqa: F403 - Django wants every name in one module
from apps.config.settings.collection import *  # noqa: F403
from apps.config.settings.core import *  # noqa: F403
from apps.config.settings.database import *  # noqa: F403
from apps.config.settings.demo import *  # noqa: F403
from apps.config.settings.logs import *  # noqa: F403
from apps.config.settings.mail import *  # noqa: F403
from apps.config.settings.people import *  # noqa: F403
from apps.config.settings.queues import *  # noqa: F403
from apps.config.settings.security import *  # noqa: F403
from apps.config.settings.storage import *  # noqa: F403

# What is loaded after the settings lives as long as the process. Without the garbage collector a process starts a quarter
# faster; `ConfigConfig.ready` turns it on again.
gc.disable()
