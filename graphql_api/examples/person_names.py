"""Names and phone prefixes of the people in sample data. Frequent ones come first."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """Names and phone number prefixes of one country."""

    country_code: str
    area_codes: tuple[str, ...]
    subscriber_digits: int
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


REGIONS = (
    Region(
        "1",
        _split("773 312 212 718 415 213 305 206 512 617"),
        7,
        _split(
            "James Mary John Jason Jennifer Michael Linda Robert Jessica David Emily Joseph Sarah Jon Jane "
            "Daniel Ann Anna Anne Annabel Joe Jo Jasmine Jay Jacob Julia Justin Zoë Renée Chloë"
        ),
        _split(
            "Smith Johnson Williams Williscroft Brown Jones Miller Davis Wilson Anderson Taylor Thomas Moore "
            "Jackson Martin Lee Thompson White Harris O'Brien O'Neill McDonald Clark Lewis Young Hall Allen "
            "King Wright"
        ),
    ),
    Region(
        "52",
        _split("55 33 81 222 656"),
        8,
        _split(
            "José María Juan Guadalupe Luis Sofía Carlos Jesús Ángel Ximena Raúl Belén Íñigo Nicolás Verónica "
            "Andrés Inés Joaquín Julián Iñaki"
        ),
        _split(
            "Hernández García Martínez López González Pérez Rodríguez Sánchez Ramírez Gómez-Juárez Gómez "
            "Álvarez Núñez Muñoz Ibáñez Ordóñez Gómez-Juárez-Álvarez Ávila Jiménez"
        ),
    ),
    Region(
        "49",
        _split("30 40 89 221 69 711"),
        8,
        _split(
            "Jürgen Anna Lukas Maria Hans Jörg Sabine Björn Käthe Jan Günther Sören Jana Heiko Uwe Anne-Käthe "
            "Jens Jutta Hannelore Johann"
        ),
        _split(
            "Müller Schmidt Schneider Fischer Weber Meyer Weiß Groß Strauß Jäger Schäfer Köhler König Böhm "
            "Großmann Lüdemann Müller-Lüdenscheidt Krüger Vogel Zöllner"
        ),
    ),
    Region(
        "33",
        _split("1 4 5 6 7"),
        8,
        _split(
            "Jean Marie Pierre Élodie François Hélène Jérôme Chloé Zoé Noël Françoise André Jean-Pierre "
            "Jeanne Aurélie Loïc Maëlle Gaëlle"
        ),
        _split(
            "Martin Bernard Dubois Lefèvre Lefebvre Garçon D'Alembert L'Hôpital Besançon Châtelet Benoît "
            "Crépeau Gérard Lévêque Müller Rousseau"
        ),
    ),
    Region(
        "48",
        _split("22 12 71 58"),
        7,
        _split("Anna Jan Łukasz Zofia Paweł Małgorzata Michał Świętosława Żaneta Józef Jadwiga Grażyna Łucja"),
        _split(
            "Nowak Kowalski Wiśniewski Wójcik Kamiński Lewandowski Zieliński Szymański Woźniak Dąbrowski Łukaszewicz"
        ),
    ),
    Region(
        "90",
        _split("212 216 312 232"),
        7,
        _split("İbrahim Ayşe Mehmet Fatma Işıl Ömer Çağla Gülşen Şükrü Yiğit"),
        _split("Yılmaz Kaya Demir Şahin Çelik Yıldız Öztürk Aydın Işık İnan"),
    ),
    Region(
        "7",
        _split("495 812 383 343"),
        7,
        _split("Анна Александр Дмитрий Мария Алёна Сергей Юлия Андрей Зоя Йосиф Ян"),
        _split("Иванов Смирнов Кузнецов Попов Соколов Ёлкин Чайковский Щукин Жуков Йотов"),
    ),
    Region(
        "30",
        _split("21 231 261"),
        8,
        _split("Γιώργος Μαρία Ιωάννης Ελένη Νίκος Άννα Οδυσσέας Ζωή Ίρις"),
        _split("Παπαδόπουλος Γεωργίου Οικονόμου Δημητρίου Παππάς Ωραιόπουλος"),
    ),
    Region(
        "81",
        _split("3 6 52 75"),
        8,
        _split("太郎 花子 翔太 さくら 健一 美咲 ユウキ 直樹"),
        _split("佐藤 鈴木 高橋 田中 伊藤 渡辺 山本 齋藤"),
    ),
    Region(
        "82",
        _split("2 31 51"),
        8,
        _split("민준 서연 지훈 지우 현우 은지"),
        _split("김 이 박 최 정 강"),
    ),
    Region(
        "86",
        _split("10 21 20 755"),
        8,
        _split("伟 芳 娜 秀英 敏 静 𠮷明"),
        _split("王 李 张 刘 陈 杨 欧阳"),
    ),
    Region(
        "20",
        _split("2 3 50"),
        8,
        _split("محمد فاطمة أحمد مريم يوسف نور"),
        _split("حسن علي إبراهيم السيد عبدالله منصور"),
    ),
    Region(
        "91",
        _split("11 22 33 44 80"),
        8,
        _split("राज प्रिया अर्जुन Jaya Anand लक्ष्मी Jyoti விஜய்"),
        _split("शर्मा Patel Singh गुप्ता Iyer Kumar முருகன் Rao"),
    ),
    Region(
        "84",
        _split("24 28 236"),
        8,
        _split("Anh Nguyệt Hùng Đức Phượng Thảo Tuấn"),
        _split("Nguyễn Trần Lê Phạm Hoàng Đặng Võ"),
    ),
    Region(
        "354",
        _split("5 4 8"),
        6,
        _split("Jón Guðrún Sigurður Þóra Ásta Björk Ægir Jóhanna"),
        _split("Jónsdóttir Jónsson Þorsteinsson Ólafsdóttir Ísaksson Ævarsdóttir"),
    ),
)
"""ordered by frequency as well"""
