"""Names and phone prefixes of the people in sample data. Frequent ones come first."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """Names and phone prefixes of one country; the subscriber digits follow a prefix."""

    prefixes: tuple[str, ...]
    subscriber_digits: int
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]


def _region(prefixes: str, subscriber_digits: int, first_names: str, last_names: str) -> Region:
    return Region(tuple(prefixes.split()), subscriber_digits, tuple(first_names.split()), tuple(last_names.split()))


REGIONS = (
    _region(
        "1773 1312 1212 1718 1415 1213 1305 1206 1512 1617",
        7,
        "James Mary John Jason Jennifer Michael Linda Robert Jessica David Emily Joseph Sarah Jon Jane Daniel Ann "
        "Anna Anne Annabel Joe Jo Jasmine Jay Jacob Julia Justin Zoë Renée Chloë",
        "Smith Johnson Williams Williscroft Brown Jones Miller Davis Wilson Anderson Taylor Thomas Moore Jackson "
        "Martin Lee Thompson White Harris O'Brien O'Neill McDonald Clark Lewis Young Hall Allen King Wright",
    ),
    _region(
        "5255 5233 5281 52222 52656",
        8,
        "José María Juan Guadalupe Luis Sofía Carlos Jesús Ángel Ximena Raúl Belén Íñigo Nicolás Verónica Andrés Inés "
        "Joaquín Julián Iñaki",
        "Hernández García Martínez López González Pérez Rodríguez Sánchez Ramírez Gómez-Juárez Gómez Álvarez Núñez "
        "Muñoz Ibáñez Ordóñez Gómez-Juárez-Álvarez Ávila Jiménez",
    ),
    _region(
        "4930 4940 4989 49221 4969 49711",
        8,
        "Jürgen Anna Lukas Maria Hans Jörg Sabine Björn Käthe Jan Günther Sören Jana Heiko Uwe Anne-Käthe Jens Jutta "
        "Hannelore Johann",
        "Müller Schmidt Schneider Fischer Weber Meyer Weiß Groß Strauß Jäger Schäfer Köhler König Böhm Großmann "
        "Lüdemann Müller-Lüdenscheidt Krüger Vogel Zöllner",
    ),
    _region(
        "331 334 335 336 337",
        8,
        "Jean Marie Pierre Élodie François Hélène Jérôme Chloé Zoé Noël Françoise André Jean-Pierre Jeanne Aurélie "
        "Loïc Maëlle Gaëlle",
        "Martin Bernard Dubois Lefèvre Lefebvre Garçon D'Alembert L'Hôpital Besançon Châtelet Benoît Crépeau Gérard "
        "Lévêque Müller Rousseau",
    ),
    _region(
        "4822 4812 4871 4858",
        7,
        "Anna Jan Łukasz Zofia Paweł Małgorzata Michał Świętosława Żaneta Józef Jadwiga Grażyna Łucja",
        "Nowak Kowalski Wiśniewski Wójcik Kamiński Lewandowski Zieliński Szymański Woźniak Dąbrowski Łukaszewicz",
    ),
    _region(
        "90212 90216 90312 90232",
        7,
        "İbrahim Ayşe Mehmet Fatma Işıl Ömer Çağla Gülşen Şükrü Yiğit",
        "Yılmaz Kaya Demir Şahin Çelik Yıldız Öztürk Aydın Işık İnan",
    ),
    _region(
        "7495 7812 7383 7343",
        7,
        "Анна Александр Дмитрий Мария Алёна Сергей Юлия Андрей Зоя Йосиф Ян",
        "Иванов Смирнов Кузнецов Попов Соколов Ёлкин Чайковский Щукин Жуков Йотов",
    ),
    _region(
        "3021 30231 30261",
        8,
        "Γιώργος Μαρία Ιωάννης Ελένη Νίκος Άννα Οδυσσέας Ζωή Ίρις",
        "Παπαδόπουλος Γεωργίου Οικονόμου Δημητρίου Παππάς Ωραιόπουλος",
    ),
    _region(
        "813 816 8152 8175", 8, "太郎 花子 翔太 さくら 健一 美咲 ユウキ 直樹", "佐藤 鈴木 高橋 田中 伊藤 渡辺 山本 齋藤"
    ),
    _region("822 8231 8251", 8, "민준 서연 지훈 지우 현우 은지", "김 이 박 최 정 강"),
    _region("8610 8621 8620 86755", 8, "伟 芳 娜 秀英 敏 静 𠮷明", "王 李 张 刘 陈 杨 欧阳"),
    _region("202 203 2050", 8, "محمد فاطمة أحمد مريم يوسف نور", "حسن علي إبراهيم السيد عبدالله منصور"),
    _region(
        "9111 9122 9133 9144 9180",
        8,
        "राज प्रिया अर्जुन Jaya Anand लक्ष्मी Jyoti விஜய்",
        "शर्मा Patel Singh गुप्ता Iyer Kumar முருகன் Rao",
    ),
    _region("8424 8428 84236", 8, "Anh Nguyệt Hùng Đức Phượng Thảo Tuấn", "Nguyễn Trần Lê Phạm Hoàng Đặng Võ"),
    _region(
        "3545 3544 3548",
        6,
        "Jón Guðrún Sigurður Þóra Ásta Björk Ægir Jóhanna",
        "Jónsdóttir Jónsson Þorsteinsson Ólafsdóttir Ísaksson Ævarsdóttir",
    ),
)
"""ordered by frequency as well"""
