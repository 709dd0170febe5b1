from ninja import Router

router = Router(tags=["timetable"])
