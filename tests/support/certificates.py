"""A certificate authority for tests, and TLS contexts of servers that it certifies."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=1),
    )


@dataclass
class CertificateAuthority:
    """Certifies servers. Its own certificate is in a file."""

    folder: Path

    def __post_init__(self) -> None:
        self.name = _name("ShardQL tests")
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(self.name, self.name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.bundle = self.folder / "authority.pem"
        self.bundle.write_bytes(
            builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        )

    def server_context(self, name: str) -> ssl.SSLContext:
        """Return the TLS context of a server whose certificate is for a name or an address."""
        key = ec.generate_private_key(ec.SECP256R1())
        is_address = name[0].isdigit()
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(name)) if is_address else x509.DNSName(name)])
        certificate = _builder(_name(name), self.name, key.public_key()).add_extension(names, critical=False)
        file = self.folder / f"{name}.pem"
        file.write_bytes(
            certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context
