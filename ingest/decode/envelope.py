"""What is around the records of a request: the resource and the scope that each of them belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.decode.attributes import Attributes, Index


@dataclass(frozen=True, slots=True)
class Envelope:
    """The resources and scopes of some requests.

    Attributes:
        requests: number of requests.
        request, resource, scope: for each record, its request, and its row in the tables of
            resources and scopes; ascending.
        resources: the attributes of the resources.
        scope_name, scope_version, scopes: what the scopes say.
    """

    requests: int
    request: Index
    resource: Index
    scope: Index
    resources: Attributes
    scope_name: pa.StringArray
    scope_version: pa.StringArray
    scopes: Attributes

    @staticmethod
    def open(batch: pa.RecordBatch) -> tuple[Envelope, pa.StructArray]:
        """The envelope of a decoded batch, and its records, end to end."""
        by_resource = batch.column("resources")
        resource_rows = by_resource.values
        by_scope = resource_rows.field("scopes")
        scope_rows = by_scope.values
        by_record = scope_rows.field("records")
        scope = parents(by_record)
        resource = parents(by_scope)[scope]
        # A resource or scope that is not sent is a null struct; its fields are read as null too.
        scopes = scope_rows.field("scope")
        envelope = Envelope(
            requests=len(batch),
            request=parents(by_resource)[resource],
            resource=resource,
            scope=scope,
            resources=Attributes.of_lists(resource_rows.field("resource").field("attributes")),
            scope_name=scopes.field("name"),
            scope_version=scopes.field("version"),
            scopes=Attributes.of_lists(scopes.field("attributes")),
        )
        return envelope, by_record.values


def parents(lists: pa.ListArray) -> Index:
    """For each element of a column of lists, the row of the list that it stands in."""
    return np.repeat(np.arange(len(lists), dtype=np.int32), np.diff(lists.offsets.to_numpy()))
