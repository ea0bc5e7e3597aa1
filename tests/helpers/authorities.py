"""Certificates of an authority of the tests' own."""

import datetime

import trustme

NOW = datetime.datetime.now(datetime.UTC)
HOST = "127.0.0.1"


def make_certificates(folder, now=NOW, days=2):
    """Write ``ca.pem`` and pairs of scheduler, worker and client, valid from `now`.

    ``between.pem`` is a client's with its key, and leads to the authority by another one.
    """
    authority, since = trustme.CA(), now - datetime.timedelta(hours=1)
    folder.mkdir(parents=True)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for role in ("scheduler", "worker", "client"):
        pair = authority.issue_cert(
            HOST, not_before=since, not_after=now + datetime.timedelta(days=days)
        )
        pair.private_key_pem.write_to_path(folder / f"{role}-key.pem")
        pair.cert_chain_pems[0].write_to_path(folder / f"{role}.pem")
    between = authority.create_child_ca()
    pair = between.issue_cert(HOST)
    parts = (pair.private_key_pem, pair.cert_chain_pems[0], between.cert_pem)
    (folder / "between.pem").write_bytes(b"".join(part.bytes() for part in parts))
    return folder
