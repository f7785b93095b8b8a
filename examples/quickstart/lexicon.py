"""The words of the quickstart grammar: small tables, one word a line, English beside German."""

from dataclasses import dataclass

CASES = ("nom", "acc", "dat")


@dataclass(frozen=True)
class Noun:
    """A noun of both languages; *gender* (m, f, n) is the German one.

    A *weak* noun takes its plural's ending in every singular form but the nominative. As a
    modifier in a compound the German noun is *link*: "kitchen table" is "Küchentisch".
    """

    en: str
    en_plural: str
    gender: str
    de: str
    de_plural: str
    weak: bool = False

    def german(self, case: str, plural: bool) -> str:
        """The noun in a case and number."""
        if not plural:
            return self.de_plural if self.weak and case != "nom" else self.de
        return self.de_plural + "n" * (case == "dat" and self.de_plural[-1] not in "ns")

    def modified(self, en: str, link: str) -> "Noun":
        """The compound of a modifier and this noun, which decides gender and plural."""
        return Noun(
            f"{en} {self.en}",
            f"{en} {self.en_plural}",
            self.gender,
            link + self.de.lower(),
            link + self.de_plural.lower(),
        )


@dataclass(frozen=True)
class Verb:
    """The forms of a verb that the regular endings do not give, and what it stands with.

    *frame* names its objects; *particle* is a separable prefix ("macht ... auf"); *be* says that
    the German perfect is built with "sein"; *first* is the German first person if irregular.
    """

    en: tuple  # base, third person, past, participle
    de: tuple  # infinitive, third person, past, participle
    frame: str = ""
    particle: str = ""
    be: bool = False
    first: str = ""

    @property
    def stem_infinitive(self) -> str:
        """The infinitive without its particle, which is also the plural of the present."""
        return self.de[0].removeprefix(self.particle)


@dataclass(frozen=True)
class Determiner:
    """A determiner: *declension* is der, ein or none (for what follows and for its own endings)."""

    en: str
    en_plural: str
    de: str
    declension: str
    singular: bool = True
    plural: bool = True


def _rows(table: str) -> list:
    return [line.split() for line in table.strip().splitlines()]


def _nouns(table: str) -> list:
    return [Noun(*row[:5], weak=row[5:] == ["weak"]) for row in _rows(table)]


def _verbs(frame: str, table: str) -> list:
    """Verbs of one frame: eight forms, then "+particle" and "sein" where they apply."""
    return [
        Verb(
            tuple(row[:4]),
            tuple(row[4:8]),
            frame,
            particle="".join(extra[1:] for extra in row[8:] if extra[0] == "+"),
            be="sein" in row[8:],
        )
        for row in _rows(table)
    ]


PERSONS = _nouns("""
    man men m Mann Männer
    woman women f Frau Frauen
    child children n Kind Kinder
    girl girls n Mädchen Mädchen
    boy boys m Junge Jungen weak
    teacher teachers m Lehrer Lehrer
    doctor doctors m Arzt Ärzte
    aunt aunts f Tante Tanten
    uncle uncles m Onkel Onkel
    neighbor neighbors m Nachbar Nachbarn weak
    queen queens f Königin Königinnen
    king kings m König Könige
    daughter daughters f Tochter Töchter
    son sons m Sohn Söhne
    sister sisters f Schwester Schwestern
    student students m Student Studenten weak
    guest guests m Gast Gäste
    baby babies n Baby Babys
""")

ANIMALS = _nouns("""
    dog dogs m Hund Hunde
    cat cats f Katze Katzen
    horse horses n Pferd Pferde
    bird birds m Vogel Vögel
    cow cows f Kuh Kühe
    bear bears m Bär Bären weak
    mouse mice f Maus Mäuse
    pig pigs n Schwein Schweine
""")

THINGS = _nouns("""
    table tables m Tisch Tische
    chair chairs m Stuhl Stühle
    key keys m Schlüssel Schlüssel
    basket baskets m Korb Körbe
    hat hats m Hut Hüte
    coat coats m Mantel Mäntel
    ball balls m Ball Bälle
    lamp lamps f Lampe Lampen
    door doors f Tür Türen
    clock clocks f Uhr Uhren
    bag bags f Tasche Taschen
    cup cups f Tasse Tassen
    newspaper newspapers f Zeitung Zeitungen
    flower flowers f Blume Blumen
    book books n Buch Bücher
    picture pictures n Bild Bilder
    window windows n Fenster Fenster
    knife knives n Messer Messer
    bed beds n Bett Betten
    dress dresses n Kleid Kleider
    car cars n Auto Autos
""")

FRUIT_HEADS = _nouns("""
    tree trees m Baum Bäume
    cake cakes m Kuchen Kuchen
""")

PLACES = _nouns("""
    garden gardens m Garten Gärten
    park parks m Park Parks
    forest forests m Wald Wälder
    station stations m Bahnhof Bahnhöfe
    kitchen kitchens f Küche Küchen
    school schools f Schule Schulen
    church churches f Kirche Kirchen
    city cities f Stadt Städte
    house houses n Haus Häuser
    room rooms n Zimmer Zimmer
    castle castles n Schloss Schlösser
    village villages n Dorf Dörfer
    hotel hotels n Hotel Hotels
    museum museums n Museum Museen
""")

# the German form has the linking element: Küche-n, Geburtstag-s, Hund-e
MODIFIERS = [
    tuple(row)
    for row in _rows("""
    kitchen Küchen
    garden Garten
    school Schul
    church Kirchen
    city Stadt
    forest Wald
    street Straßen
    family Familien
    winter Winter
    summer Sommer
    birthday Geburtstags
    wedding Hochzeits
    work Arbeits
    music Musik
    glass Glas
    stone Stein
    gold Gold
    night Nacht
    sun Sonnen
    dog Hunde
    horse Pferde
""")
]
FRUITS = [
    tuple(row)
    for row in _rows("""
    apple Apfel
    cherry Kirsch
    plum Pflaumen
    lemon Zitronen
    orange Orangen
""")
]
PLACE_MODIFIERS = [pair for pair in MODIFIERS if pair[0] not in ("kitchen", "birthday", "work")]

ADJECTIVES = [
    tuple(row)
    for row in _rows("""
    old alt
    big groß
    small klein
    beautiful schön
    famous berühmt
    strange seltsam
""")
]
BEING_ADJECTIVES = ADJECTIVES + [
    tuple(row)
    for row in _rows("""
    young jung
    happy glücklich
    sad traurig
    tired müde
    friendly freundlich
    strong stark
    sick krank
    clever klug
""")
]
THING_ADJECTIVES = ADJECTIVES + [
    tuple(row)
    for row in _rows("""
    new neu
    ugly hässlich
    white weiß
    black schwarz
    red rot
    green grün
    blue blau
    cheap billig
    heavy schwer
""")
]

DETERMINERS = [
    Determiner("the", "the", "d", "der"),
    Determiner("a", "", "ein", "ein", plural=False),
    Determiner("this", "these", "dies", "der"),
    Determiner("every", "", "jed", "der", plural=False),
    Determiner("my", "my", "mein", "ein"),
    Determiner("our", "our", "unser", "ein"),
    Determiner("", "many", "viel", "none", singular=False),
    Determiner("", "two", "zwei", "none", singular=False),
    Determiner("", "three", "drei", "none", singular=False),
]
ARTICLE = {
    "m": ("der", "den", "dem"),
    "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"),
    "p": ("die", "die", "den"),
}
DER_ENDING = {
    "m": ("er", "en", "em"),
    "f": ("e", "e", "er"),
    "n": ("es", "es", "em"),
    "p": ("e", "e", "en"),
}
EIN_ENDING = {**DER_ENDING, "m": ("", "en", "em"), "n": ("", "", "em")}
# an adjective's endings after a determiner of each declension, by gender and case
ADJECTIVE_ENDING = {
    "der": {
        "m": ("e", "en", "en"),
        "f": ("e", "e", "en"),
        "n": ("e", "e", "en"),
        "p": ("en", "en", "en"),
    },
    "ein": {
        "m": ("er", "en", "en"),
        "f": ("e", "e", "en"),
        "n": ("es", "es", "en"),
        "p": ("en", "en", "en"),
    },
    "none": {"p": ("e", "e", "en")},
}
PRONOUNS = [
    ("I", "ich", "1s"),
    ("he", "er", "3s"),
    ("she", "sie", "3s"),
    ("we", "wir", "p"),
    ("they", "sie", "p"),
]

VERBS = {
    "intransitive": _verbs(
        "",
        """
        sleep sleeps slept slept schlafen schläft schlief geschlafen
        laugh laughs laughed laughed lachen lacht lachte gelacht
        dance dances danced danced tanzen tanzt tanzte getanzt
        wait waits waited waited warten wartet wartete gewartet
        sing sings sang sung singen singt sang gesungen
        arrive arrives arrived arrived ankommen kommt kam angekommen +an sein
    """,
    ),
    "being": _verbs(
        "acc",
        """
        see sees saw seen sehen sieht sah gesehen
        find finds found found finden findet fand gefunden
        hear hears heard heard hören hört hörte gehört
        love loves loved loved lieben liebt liebte geliebt
    """,
    )
    + _verbs(
        "dat",
        """
        follow follows followed followed folgen folgt folgte gefolgt sein
        help helps helped helped helfen hilft half geholfen
    """,
    ),
    "person": _verbs(
        "acc",
        """
        visit visits visited visited besuchen besucht besuchte besucht
        call calls called called anrufen ruft rief angerufen +an
        invite invites invited invited einladen lädt lud eingeladen +ein
    """,
    )
    + _verbs(
        "dat",
        """
        thank thanks thanked thanked danken dankt dankte gedankt
    """,
    ),
    "thing": _verbs(
        "acc",
        """
        buy buys bought bought kaufen kauft kaufte gekauft
        sell sells sold sold verkaufen verkauft verkaufte verkauft
        carry carries carried carried tragen trägt trug getragen
        clean cleans cleaned cleaned putzen putzt putzte geputzt
        paint paints painted painted malen malt malte gemalt
        choose chooses chose chosen aussuchen sucht suchte ausgesucht +aus
        bring brings brought brought mitbringen bringt brachte mitgebracht +mit
    """,
    ),
    "transfer": _verbs(
        "dat acc",
        """
        give gives gave given geben gibt gab gegeben
        show shows showed shown zeigen zeigt zeigte gezeigt
        send sends sent sent schicken schickt schickte geschickt
        offer offers offered offered anbieten bietet bot angeboten +an
    """,
    ),
    "motion": _verbs(
        "",
        """
        go goes went gone gehen geht ging gegangen sein
        come comes came come kommen kommt kam gekommen sein
        return returns returned returned zurückkommen kommt kam zurückgekommen +zurück sein
    """,
    ),
    "say": _verbs(
        "",
        """
        say says said said sagen sagt sagte gesagt
        think thinks thought thought denken denkt dachte gedacht
        hope hopes hoped hoped hoffen hofft hoffte gehofft
        believe believes believed believed glauben glaubt glaubte geglaubt
    """,
    ),
}
BE = Verb(("be", "is", "was", "been"), ("sein", "ist", "war", "gewesen"), be=True, first="bin")
HAVE = Verb(("have", "has", "had", "had"), ("haben", "hat", "hatte", "gehabt"))
# English singular and plural, then a German verb whose infinitive and third person matter
MODALS = [
    ("can", "can", Verb((), ("können", "kann", "", ""), first="kann")),
    ("must", "must", Verb((), ("müssen", "muss", "", ""), first="muss")),
    ("should", "should", Verb((), ("sollen", "soll", "", ""), first="soll")),
    ("wants to", "want to", Verb((), ("wollen", "will", "", ""), first="will")),
]

# adverbs of time that suit each tense
ADVERBS = {
    "present": [
        ("today", "heute"),
        ("now", "jetzt"),
        ("every day", "jeden Tag"),
        ("often", "oft"),
        ("sometimes", "manchmal"),
    ],
    "past": [("yesterday", "gestern"), ("last week", "letzte Woche"), ("back then", "damals")],
    "perfect": [("today", "heute"), ("often", "oft"), ("this week", "diese Woche")],
    "modal": [("today", "heute"), ("tomorrow", "morgen"), ("soon", "bald"), ("now", "jetzt")],
}
PLACE_PREPOSITIONS = [
    ("in", "in"),
    ("behind", "hinter"),
    ("next to", "neben"),
    ("in front of", "vor"),
]
MOTION_PREPOSITIONS = [("to", "zu"), ("from", "aus")]
CONTRACTIONS = {"in dem": "im", "zu dem": "zum", "zu der": "zur"}
# tenses that go together in a main and a subordinate clause
TIMES = (("present", "modal"), ("past", "perfect"))
# "when" is "als" for what happened once in the past, "wenn" otherwise
CONJUNCTIONS = {
    tense: [("because", "weil"), ("although", "obwohl"), ("while", "während"), *more]
    for tense, more in {
        "present": [("when", "wenn"), ("if", "falls")],
        "past": [("when", "als")],
        "perfect": [],
        "modal": [("if", "falls")],
    }.items()
}
COORDINATORS = [("and", "und"), ("but", "aber")]
