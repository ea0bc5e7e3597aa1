"""Symmetric compositions: a method of order 2 or 1 raised to order 4, 6, 8 or 10.

One step of size h of a symmetric method S of order 2 becomes stages of size γ_s h; Σγ = 1, γ
symmetric. A step of a method χ of order 1 and its adjoint χ* becomes, from right to left,

    χ*(c_2s h) ∘ χ(c_2s−1 h) ∘ … ∘ χ*(c_2 h) ∘ χ(c_1 h),    c symmetric;

a symmetric composition of S = χ*(h/2) ∘ χ(h/2) is the one with both shares of a stage γ/2. Digits
are given up to the middle, which follows from the sums.

Published are some 25 decimals, of `blanes_moan6` and `blanes_casas_murua8` 15. The others here are
those with which the conditions for the order are met: of all solutions they belong to the one that
is nearest to what is published. Double-double takes them all; doubles are those of the published
decimals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Composition:
    """A symmetric composition.

    Parameters
    ----------
    order : int
        The order that it gives to a symmetric method of order 2.
    first_half : tuple of str
        The coefficients before the middle one, as decimals.
    source : str
        Where the coefficients come from.
    sources : tuple of str
        Keys of `bibliography.entries`.
    """

    order: int
    first_half: tuple[str, ...]
    source: str
    sources: tuple[str, ...]

    @property
    def stages(self) -> int:
        """The number of stages."""
        return 2 * len(self.first_half) + 1

    @property
    def exact_coefficients(self) -> list[Fraction]:
        """The γ as `Fraction`."""
        return _mirror_about_middle(self.first_half)

    @property
    def coefficients(self) -> np.ndarray:
        """The γ, correctly rounded, shape ``(stages,)``."""
        return _float_array(self.exact_coefficients)

    @property
    def exact_shares(self) -> list[Fraction]:
        """The c with which χ and χ* compose to the same, as `Fraction`."""
        return [gamma / 2 for gamma in self.exact_coefficients for _ in range(2)]

    @property
    def refined_shares(self) -> list[Fraction]:
        """The exact shares: all decimals are given."""
        return self.exact_shares

    @property
    def shares(self) -> np.ndarray:
        """The c, correctly rounded, shape ``(2 stages,)``."""
        return _float_array(self.exact_shares)


@dataclass(frozen=True)
class AdjointComposition:
    """A symmetric composition of a method of order 1 with its adjoint.

    Published are the times a_i of A and b_i of B in a splitting A + B,
    ``a_1 b_1 a_2 … b_s a_s+1``. Flows of A meet where χ* ends and χ begins, those of B where χ
    ends and χ* begins, so that a_1 = c_1, b_1 = c_1 + c_2, a_2 = c_2 + c_3, …; the conditions
    for an order are the same (McLachlan 1995).

    Parameters
    ----------
    order : int
        The order that it gives to a method of order 1 with its adjoint.
    a_first_half, b_first_half : tuple of str
        The a before the middle one, and the b before the middle two, as decimals; Σa = Σb = 1.
    refined : tuple of tuple of str
        Both with all decimals.
    source : str
        Where the coefficients come from.
    sources : tuple of str
        Keys of `bibliography.entries`.
    """

    order: int
    a_first_half: tuple[str, ...]
    b_first_half: tuple[str, ...]
    refined: tuple[tuple[str, ...], tuple[str, ...]]
    source: str
    sources: tuple[str, ...]

    @property
    def stages(self) -> int:
        """The number of stages, of χ and χ* each."""
        return 2 * len(self.a_first_half)

    @property
    def exact_shares(self) -> list[Fraction]:
        """The c of the published decimals as `Fraction`, 2 stages of them."""
        return self._shares(self.a_first_half, self.b_first_half)

    @property
    def refined_shares(self) -> list[Fraction]:
        """The c of all decimals as `Fraction`."""
        return self._shares(*self.refined)

    @staticmethod
    def _shares(a_first_half: Sequence[str], b_first_half: Sequence[str]) -> list[Fraction]:
        a = _mirror_about_middle(a_first_half)
        half = [Fraction(digits) for digits in b_first_half]
        half.append(Fraction(1, 2) - sum(half))
        b = [*half, *reversed(half)]
        times = [time for pair in zip(a, b, strict=False) for time in pair]  # but the last a
        shares = [times[0]]
        for time in times[1:]:
            shares.append(time - shares[-1])
        return shares

    @property
    def shares(self) -> np.ndarray:
        """The c, correctly rounded, shape ``(2 stages,)``."""
        return _float_array(self.exact_shares)


@dataclass(frozen=True)
class ProcessedComposition:
    """A symmetric composition between a processor and its inverse: π ∘ Kⁿ ∘ π⁻¹.

    The kernel K meets fewer conditions than its order has, and so takes fewer stages. The
    processor π = G(h) ∘ G(−h), which costs only where a state is wanted, supplies the others. Time
    reversal would ask for a π that is even in h, as this one is but for errors of the step.

    Parameters
    ----------
    order : int
        The effective order, of π ∘ K ∘ π⁻¹, from a symmetric method of order 2.
    first_half : tuple of str
        The coefficients of K before the middle one, as decimals.
    half_processor : tuple of str
        The coefficients of G but the last one, which makes their sum 0.
    refined : tuple of tuple of str
        Both with all decimals.
    source : str
        Where the coefficients come from.
    sources : tuple of str
        Keys of `bibliography.entries`.
    """

    order: int
    first_half: tuple[str, ...]
    half_processor: tuple[str, ...]
    refined: tuple[tuple[str, ...], tuple[str, ...]]
    source: str
    sources: tuple[str, ...]

    @property
    def stages(self) -> int:
        """The number of stages of the kernel."""
        return 2 * len(self.first_half) + 1

    @property
    def processor_stages(self) -> int:
        """The number of stages of the processor."""
        return 2 * len(self.half_processor) + 2

    @property
    def exact_shares(self) -> list[Fraction]:
        """The c of the published decimals, of the kernel and of the processor, as `Fraction`."""
        return self._shares(self.first_half, self.half_processor)

    @property
    def refined_shares(self) -> list[Fraction]:
        """The c of all decimals as `Fraction`."""
        return self._shares(*self.refined)

    @staticmethod
    def _shares(first_half: Sequence[str], half_processor: Sequence[str]) -> list[Fraction]:
        half = [Fraction(digits) for digits in half_processor]
        half.append(-sum(half, Fraction()))
        processor = [*(-gamma for gamma in half), *half]
        stages = [*_mirror_about_middle(first_half), *processor]
        return [gamma / 2 for gamma in stages for _ in range(2)]

    @property
    def shares(self) -> np.ndarray:
        """The c, correctly rounded."""
        return _float_array(self.exact_shares)


def _mirror_about_middle(first_half: Sequence[str]) -> list[Fraction]:
    """Exact coefficients of sum 1: those given as decimals, the middle one, and mirrored."""
    half = [Fraction(digits) for digits in first_half]
    return [*half, 1 - 2 * sum(half, Fraction()), *reversed(half)]


def _float_array(exact: Iterable[Fraction]) -> np.ndarray:
    return np.array([float(value) for value in exact])


COMPOSITIONS = {
    "triple_jump4": Composition(
        order=4,
        first_half=("1.35120719195965763404768780897146082692199937621714482832871",),
        source="Creutz and Gocksch (1989), Forest (1989), Suzuki (1990), Yoshida (1990)",
        sources=("creutzgocksch1989", "suzuki1990", "yoshida1990"),
    ),
    "suzuki4": Composition(
        order=4,
        first_half=(
            "0.414490771794375737142354062860761495711774604016707133323285",
            "0.414490771794375737142354062860761495711774604016707133323285",
        ),
        source="Suzuki (1990)",
        sources=("suzuki1990",),
    ),
    "yoshida6": Composition(
        order=6,
        first_half=(
            "0.784513610477557263819497633866349875776824417",
            "0.235573213359358133684793182978534601686468082",
            "-1.177679984178871006946415680964315734639269253",
        ),
        source="Yoshida (1990), solution A",
        sources=("yoshida1990",),
    ),
    "kahan_li6": Composition(
        order=6,
        first_half=(
            "0.392161444007314139279250557422671403804934261",
            "0.332599136789359438599748637500049646881586944",
            "-0.706246172557639359809964819549256459395510667",
            "0.082213596293550800231490448102056331103293891",
        ),
        source="Kahan and Li (1997), s9odr6a",
        sources=("kahanli1997",),
    ),
    "kahan_li8": Composition(
        order=8,
        first_half=(
            "0.130202483088890080878817632096700522357247234",
            "0.561162981775108384561964407700150567266159354",
            "-0.389474962644847286408078598235248388836068047",
            "0.158841906555155600896210745707152481412147809",
            "-0.395903894133237577336231539347938936026771485",
            "0.184539640978315707091832541533375462818987344",
            "0.258374387686322047293979109994939471813076209",
            "0.295011723609310298870966240218228112976543230",
        ),
        source="Kahan and Li (1997), s17odr8a",
        sources=("kahanli1997",),
    ),
    "sofroniou_spaletta10": Composition(
        order=10,
        first_half=(
            "0.078795722521686419263907679338289606665525628",
            "0.313096103415108527764812471920256821461802522",
            "0.027918383235078066109520273265949447508711511",
            "-0.229592841593907094151213396801122704836931043",
            "0.130962061077164863174656859292158363549447683",
            "-0.269733405654510714344609732217286623648099348",
            "0.074973343155891435666137105639058713503758925",
            "0.111993423999810204889575080737269905277266874",
            "0.366133449546226751193148123537146946009021807",
            "-0.399105630136035897878629810584015556896082292",
            "0.103087398527471077315802769994503872284375008",
            "0.411430873955890237820704118977477786897940298",
            "-0.004866360583135261762195659307742409124724261",
            "-0.392033353708639906448081936429980141629719076",
            "0.051942502962449647037182904831404243147260832",
            "0.050665090759924496335874342509694873941040714",
            "0.049674370639729879054568800666664794601876293",
        ),
        source="Sofroniou and Spaletta (2005)",
        sources=("sofroniouspaletta2005",),
    ),
}

ADJOINT_COMPOSITIONS = {
    "blanes_moan6": AdjointComposition(
        order=6,
        a_first_half=(
            "0.0502627644003922",
            "0.413514300428344",
            "0.0450798897943977",
            "-0.188054853819569",
            "0.541960678450780",
        ),
        b_first_half=(
            "0.148816447901042",
            "-0.132385865767784",
            "0.067307604692185",
            "0.432666402578175",
        ),
        refined=(
            (
                "0.050262764400392686021221654402074109406779901",
                "0.413514300428343815063063720133884438968220604",
                "0.045079889794398062968897052124513471162731073",
                "-0.188054853819568914799128488918870542481632352",
                "0.541960678450780134831414740933072496345615872",
            ),
            (
                "0.148816447901043231920901005535577588878410094",
                "-0.132385865767783647448845426598939921576758827",
                "0.067307604692184458150257896592601046898133195",
                "0.432666402578173597527667970883545298060566317",
            ),
        ),
        source="Blanes and Moan (2002), S6",
        sources=("blanesmoan2002", "mclachlan1995"),
    ),
}

PROCESSED_COMPOSITIONS = {
    "blanes_casas_murua8": ProcessedComposition(
        order=8,
        first_half=(
            "0.168",
            "0.168",
            "0.585550530805562",
            "-0.460090457516872",
            "0.172863148729731",
            "0.179664539695039",
        ),
        half_processor=(
            "-0.543415765371656",
            "0.598212975943381",
            "0.236885952363384",
            "-0.511744926116413",
            "0.162324207599241",
            "0.588351189003849",
            "0.333987768164597",
            "-0.337188967354338",
            "-0.008488123494574411",
        ),
        refined=(
            (
                "0.168000000000000000000000000000000000000000000",
                "0.168000000000000000000000000000000000000000000",
                "0.585550530805562472452851092408752215248090880",
                "-0.460090457516871810039458611112674494775571908",
                "0.172863148729729535273709649774667530843437018",
                "0.179664539695040475606538960061045667712642530",
            ),
            (
                "-0.543415765371656087881192617816241935387329572",
                "0.598212975943381038881278344699275626844780433",
                "0.236885952363383945574170536941635481548503156",
                "-0.511744926116413063650865137295859521881182687",
                "0.162324207599241012001204794173311852030879946",
                "0.588351189003848832276714227721382213525457103",
                "0.333987768164596912243316425409050175048527124",
                "-0.337188967354338096218029314506678640045464275",
                "-0.008488123494574355045950871277541780430076759",
            ),
        ),
        source="Blanes, Casas and Murua (2006), 13 stages",
        sources=("blanescasasmurua2006",),
    ),
}
