"""Names of certificates as Java writes them. The texts were printed by
`X500Principal.getName()` of OpenJDK 17 for certificates with these subjects."""

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from ledgerstone.security.distinguished_name import (
    MAX_NAME_BYTES,
    BrokenName,
    rfc2253,
    subject_of,
)
from tests.kit.certificates import Authority

VECTORS = [
    (
        (
            "3065310b30090603550406130244453110300e06035504080c0742617661726961310f300d060355"
            "04070c064d756e69636831163014060355040a0c0d4578616d706c652c20496e632e310c300a0603"
            "55040b0c03522b44310d300b06035504030c0464756b65"
        ),
        "CN=duke,OU=R\\+D,O=Example\\, Inc.,L=Munich,ST=Bavaria,C=DE",
    ),
    (
        (
            "306731133011060a0992268993f22c6401191603636f6d31173015060a0992268993f22c64011916"
            "076578616d706c6531123010060a0992268993f22c6401010c0275313113301106035504090c0a4d"
            "61696e2053742e2031310e300c06035504030c05613d622363"
        ),
        "CN=a\\=b\\#c,STREET=Main St. 1,UID=u1,DC=example,DC=com",
    ),
    (
        (
            "302d311c301a06092a864886f70d010901160d61406578616d706c652e636f6d310d300b06035504"
            "030c046d61696c"
        ),
        "CN=mail,1.2.840.113549.1.9.1=#160d61406578616d706c652e636f6d",
    ),
    (
        (
            "3040310b3009060355040513023432310b3009060355040c0c024472310c300a060355042a0c0341"
            "6461310a300806035504040c014c310a300806035504030c0178"
        ),
        "CN=x,2.5.4.4=#0c014c,2.5.4.42=#0c03416461,2.5.4.12=#0c024472,2.5.4.5=#13023432",
    ),
    (
        "30263124302206035504030c1b4ac3bc7267656e204772c3b6c39f6520e6bca2e5ad9720f09f9880",
        "CN=Jürgen Größe 漢字 😀",
    ),
    (
        "301b3119301706035504030c10206c65616420616e6420747261696c20",
        "CN=\\ lead and trail\\ ",
    ),
    (
        "3021311f301d06035504030c16236861736820227122203c613e203b205c206261636b",
        'CN=\\#hash \\"q\\" \\<a\\> \\; \\\\ back',
    ),
    (
        "30163114301206035504030c0b74776f2020737061636573",
        "CN=two  spaces",
    ),
    (
        "3010310e300c06035504030c056e756c0078",
        "CN=nul\\00x",
    ),
    (
        "30183116301406035504030c0d6c696e650a6665656409746162",
        "CN=line\nfeed\ttab",
    ),
    (
        "30133111300f06035504031e080062006d007000dc",
        "CN=\\00b\\00m\\00p\\00�",
    ),
    (
        "300e310c300a06035504031403743631",
        "CN=t61",
    ),
    (
        "30173115301306035504031c0c000000750000006e00000069",
        "CN=#1c0c000000750000006e00000069",
    ),
    (
        "300e310c300a06035504031603696135",
        "CN=ia5",
    ),
    (
        (
            "302d311f300c06035504030c056d756c7469300f060a0992268993f22c6401010c0175310a300806"
            "0355040a0c016f"
        ),
        "O=o,CN=multi+UID=u",
    ),
    (
        "300e310c300a06032a03040c036f6464",
        "1.2.3.4=#0c036f6464",
    ),
    (
        "3010310e300c06035504030c050d20637220",
        "CN=\\\r\\ cr\\ ",
    ),
    (
        (
            "304b31163014060a0992268993f22c6401190c06757466386463310a3008060355042e130171310a"
            "300806035504410c0170310c300a060355042c0c03494949310b3009060355042b0c026162"
        ),
        "2.5.4.43=#0c026162,2.5.4.44=#0c03494949,2.5.4.65=#0c0170,2.5.4.46=#130171,DC=utf8dc",
    ),
    (
        "300d310b300906035504030c022020",
        "CN=\\ \\ ",
    ),
]


@pytest.mark.parametrize(("subject", "text"), VECTORS)
def test_a_name_is_written_as_java_writes_it(subject: str, text: str) -> None:
    assert rfc2253(bytes.fromhex(subject)) == text


def test_the_subject_is_found_in_a_certificate() -> None:
    issued = Authority("the CA").issue("duke")

    subject = subject_of(issued.certificate.public_bytes(Encoding.DER))

    assert rfc2253(subject) == "CN=duke"


@pytest.mark.parametrize(("subject", "text"), VECTORS[:4])
def test_a_name_that_is_cut_off_or_changed_is_refused_or_another(subject: str, text: str) -> None:
    data = bytes.fromhex(subject)

    for end in range(len(data)):
        with pytest.raises(BrokenName):
            rfc2253(data[:end])
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            try:
                assert rfc2253(bytes(changed)) is not None
            except BrokenName:
                continue


def test_a_certificate_that_is_cut_off_has_no_subject() -> None:
    data = Authority().certificate.public_bytes(Encoding.DER)

    for end in range(len(data)):
        with pytest.raises(BrokenName):
            subject_of(data[:end])


def test_a_name_without_bounds_is_refused() -> None:
    size = MAX_NAME_BYTES
    data = b"\x30\x82" + size.to_bytes(2, "big") + bytes(size)

    with pytest.raises(BrokenName, match="more than 4096"):
        rfc2253(data)


def test_no_name_is_an_empty_text() -> None:
    assert rfc2253(b"\x30\x00") == ""
