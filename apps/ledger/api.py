"""The ledger over JSON: the chain as a document."""

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from apps.accounts.access import organisation_get
from apps.ledger.chain import chain_json

router = Router(tags=["ledger"])


@router.get("/ledger/chain", operation_id="ledger_chain", summary="The chain of transactions, to check it yourself")
def ledger_chain(request: HttpRequest) -> StreamingHttpResponse:
    """Every transaction with its entries and hashes, digests of usage rows, and the stored roots of days
    (`takt-chain/1`)."""
    response = StreamingHttpResponse(chain_json(organisation_get(request).id), content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="takt-chain.json"'
    return response
