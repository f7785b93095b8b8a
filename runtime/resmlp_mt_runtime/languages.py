"""Languages by the two letters under which sacreBLEU, Moses and our tables know them."""

_THREE = """eng:en deu:de ger:de fra:fr fre:fr spa:es ita:it por:pt nld:nl dut:nl dan:da swe:sv
nob:nb nno:nn nor:no fin:fi isl:is ces:cs cze:cs slk:sk slo:sk pol:pl rus:ru ukr:uk bel:be bul:bg
hrv:hr slv:sl srp:sr bos:bs ron:ro rum:ro hun:hu est:et lav:lv lvs:lv lit:lt ell:el gre:el tur:tr
aze:az azj:az kat:ka geo:ka cat:ca glg:gl gle:ga mlt:mt heb:he ind:id msa:ms zsm:ms vie:vi tha:th
lao:lo khm:km mya:my bod:bo dzo:dz zho:zh cmn:zh yue:zh jpn:ja kor:ko fas:fa per:fa pes:fa eus:eu
sqi:sq alb:sq als:sq ara:ar arb:ar hin:hi urd:ur ben:bn
nep:ne npi:ne pan:pa amh:am pus:ps pbt:ps uig:ug snd:sd
chi:zh lzh:zh wuu:zh nan:zh bur:my tib:bo ice:is may:ms baq:eu ekk:et prs:fa ary:ar ars:ar apc:ar
arz:ar acm:ar kaz:kk kir:ky tgk:tg mon:mn khk:mn hye:hy arm:hy mkd:mk mac:mk"""
_TWO_LETTERS = dict(code.split(":") for code in _THREE.split())


def two_letters(language: str) -> str:
    """``zh`` for ``zh_CN``, ``ZH``, ``zho_Hans`` and ``cmn``; others in lower case, without
    region."""
    code = language.lower().replace("_", "-").partition("-")[0]
    return _TWO_LETTERS.get(code, code)
