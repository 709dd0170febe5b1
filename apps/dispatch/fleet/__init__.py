"""Changes to the fleet while device time is being sold. A change that would lose sold time is refused as a whole."""

from apps.dispatch.fleet.applying import fleet_apply, fleet_edit, fleet_undo
from apps.dispatch.fleet.planning import Plan, fleet_preview

__all__ = ["Plan", "fleet_apply", "fleet_edit", "fleet_preview", "fleet_undo"]
