"""The table of classes is complete, and says the truth."""

import dataclasses
import importlib
import inspect
import pkgutil
from enum import Enum

import pytest

import credibly
from credibly.persistence.classes import class_named, fields_of, name_of
from credibly.persistence.table import CLASSES
from persistence.cases import CASES

ROOMS = ("comparison", "data", "estimators", "inference", "model", "numerics", "tables")

# Classes that no fitted model holds, and why.
NEVER_HELD = {
    "base classes and mixins": """
        estimators.exporting:DrawsMixin estimators.exporting:ExportMixin estimators.formulas:FormulaMixin
        estimators.reporting:ReportMixin estimators.outputs:PredictToMixin estimators.not_in_memory:ScoreMixin
        estimators.gaussian_process_results:GaussianProcessResults estimators.generative:Discriminant
        estimators.generative:_ByColumns estimators.generative_base:GenerativeLearning
        estimators.generative_results:GenerativeClassifierBase estimators.hypothesis_tests:HypothesisTests
        estimators.linear_classifier:LinearClassifier estimators.linear_model:LinearModel
        estimators.probabilities:LabelNoiseMixin estimators.probabilities:ProbabilityMixin inference.posterior:DataUnits
        inference.latent_newton:AtMode model.class_conditionals.rates:TimeFamily
        model.class_conditionals.statistics:Additive model.conjugate_priors:_SameNumbers
        model.kernels.hyperparameters:Adjustable numerics.linalg:Definite
    """,
    "rows of the fit, and what is made of them on the way": """
        data.source:Block data.source:MemoryRows data.source:Start estimators.determined:Labelled
        estimators.generative_learning:GenerativeRows estimators.mixed_columns:Column
        estimators.mixed_columns:MixedTable estimators.partial_labels:Labels estimators.targets:Targets
        estimators.validation:Table estimators.validation:Training tables.columns:Used tables.fitting:Prepared
        tables.formula:Sides tables.formula:Terms tables.formula_safety:Piece tables.formula_values:Values
        tables.model:Choices tables.model:Rows tables.target:Labelled
    """,
    "rows that are not in memory, and how they are walked": """
        data.ahead:Crew data.checkpoint:Checkpoint data.checkpoint:RecordedRows data.checkpoint:Recorder
        data.dask:DaskRows data.dask:Partitions
        data.parquet:ParquetRows data.parquet:_Buffer data.parquet:_Source data.parquet_columns:Batch
        data.memory:_Group
        data.parquet_columns:Coded data.parquet_columns:Feature data.parquet_files:Files data.parquet_files:Piece
        data.parquet_files:State data.parquet_table:ParquetTable data.parquet_table:Place data.parquet_table:Reading
        data.parquet_table:Roles data.parquet_table:Unseen data.partitions:Asked data.partitions:Drawn
        data.partitions:Output data.partitions:Part data.progress:RowProgress data.progress:_Line
        estimators.generative_stored:Extent estimators.lazily:Outputs estimators.stored:StoredTable
        estimators.stored:StoredTraining
    """,
    "steps of a fit, gone when it ends": """
        inference.laplace:_Watched numerics._fused_softmax:Tile numerics.fused:Sums numerics.fused:_Row
        numerics.fused:_Unit numerics.quasi_newton:Metric numerics.quasi_newton:Passes numerics.quasi_newton:Start
        numerics.quasi_newton:_Point numerics.quasi_newton:_Search
        comparison.candidates:Candidate comparison.measures:Request comparison.progress:Progress
        estimators.wide_learning:Reduced inference.row_space:Spanned inference.wide:BestScale
        inference.wide:DrawSource inference.wide:Expanded inference.wide:Parts inference.wide:Spectrum
        inference.wide:WideFit inference.wide:WideHessian inference.wide:WideObjective
        model.centred_prior:IndependentPrior numerics.iterative:Solved numerics.settings:ManyWeights
        estimators.gaussian_process_inducing:Induced inference.inducing:InducingPrecision
        inference.inducing:InducingPrior inference.inducing:Part inference.inducing:Pulled
        inference.inducing_evidence:InducingEvidence inference.inducing_evidence:InducingOneVsRest
        inference.inducing_latents:InducingLaplace inference.inducing_latents:InducingLatents
        inference.inducing_latents:InducingSites inference.inducing_ascent:Ascent inference.inducing_ascent:Goal
        inference.inducing_ascent:Look inference.inducing_ascent:Terms
        inference.inducing_search:Learnt inference.inducing_search:Part inference.inducing_search:Points
        inference.inducing_search:Search inference.inducing_moves:Moves inference.inducing_moves:Place
        data.threads:_Entry data.threads:_SingleThreadedBlas
        estimators.climbing:Checked estimators.gaussian_process:EvidencePrinter
        estimators.generative_learning:Learnt estimators.learning:ChosenPrior estimators.leave_one_out:Fit
        estimators.nested_models:Extra estimators.noise:Known estimators.prequential:Learner
        estimators.problem:Drawn estimators.problem:Learnt estimators.problem:Problem estimators.problem:Search
        inference.adf:FullCovariance inference.adf:Spherical inference.conjugate:Integrate inference.conjugate:PlugIn
        inference.em:Completion inference.em:Expected inference.em:Limits inference.ep:SiteLatents inference.ep:Sweep
        inference.evidence:_EvidenceSurface inference.evidence:_QuadraticSurface inference.scale_search:Evidence
        inference.scale_search:_OneScale
        inference.evidence:Maximum inference.evidence:ScaledPriors
        inference.free_density:Derivatives inference.free_density:Target
        inference.function_target:FunctionTarget inference.hypotheses:Constraints inference.hypotheses:WeightNames
        inference.importance:Correction inference.importance:Pairs inference.importance:_Points
        inference.importance:_White inference.jeffreys:PenalisedObjective inference.kernel_evidence:Climb
        inference.kernel_evidence:Evaluated inference.kernel_evidence:Found inference.kernel_evidence:KernelEvidence
        inference.label_noise:JointObjective inference.label_noise:NoiseMode inference.laplace:Controls
        inference.latent_laplace:LaplaceLatents inference.latent_laplace:Latents inference.latent_newton:Mode
        inference.latent_newton:Point inference.latent_softmax:ClassLatents inference.latent_softmax:SoftmaxLatents
        inference.mode_search:Climb inference.mode_search:Peak inference.mode_search:Search
        inference.contrasts:ClassWeights inference.contrasts:Contrast numerics.linalg:Roots
        inference.objective:Objective inference.objective:Pass inference.objective:Raw
        inference.objective:RowSlopes inference.one_vs_rest:OneVsRestLatents inference.posterior:InferenceResult
        inference.profile:PlaneContrast inference.profile:PlaneObjective inference.profile:Point
        inference.profile:Profile inference.sites:Cavities inference.sites:Pace inference.sites:Sites
        inference.targets:NoiseTarget inference.targets:Side inference.targets:WeightTarget
        inference.weight_ep:WeightSites inference.weight_ep:WeightSitesProblem numerics.fixed_point:Anderson
        numerics.fused:_Ledger numerics.newton:Local numerics.newton:Solution numerics._fused_kernels:Scratch
        numerics._fused_kernels:Weights numerics._fused_design:Rows
        numerics.caching:cached_property
        data.threads:_Crew data.threads:Outcome data.threads:Helpers data.threads:_Pool inference.laplace:_Climb
        inference.shared_table:SharedTable numerics.fused:Columns numerics.fused:Parts numerics.fused:Table
        numerics._fused_softmax_lines:Lines numerics._fused_softmax_rows:_Powers
        numerics._fused_softmax_vectors:WideVectors
        numerics._fused_lines:Lines numerics._fused_vectors:Vectors
    """,
    "what a function or a property returns": """
        comparison.table:TextTable estimators.prequential:PrequentialScore estimators.summary:Summary
        inference.drawn_posterior:DrawnScores inference.posterior:Scores inference.hypotheses:HypothesisResult
        model.basis:_Standardisation model.class_conditionals.base:Completed model.class_conditionals.base:Divisor
        model.class_conditionals.base:Estimates model.class_conditionals.base:Linear model.kernels.base:Tables
        model.kernels.hyperparameters:Free model.kernels.hyperparameters:Number
        model.likelihoods.base:Expansion model.likelihoods.base:Slopes
        model.likelihoods.categorical:CategoricalExpansion model.likelihoods.density:Score
        model.likelihoods.label_noise:FlipSlopes model.likelihoods.label_noise:Mixed
        model.likelihoods.label_noise:NoisyExpansion
        model.likelihoods.links:Derivatives model.priors:Moments numerics.derivatives:Estimate
        numerics.ellipsoids:Alike numerics.ellipsoids:Filled numerics.ellipsoids:Measured numerics.grouped:Pattern
        numerics.grouped:Together numerics.logistic_averages:Tilted numerics.logistic_averages:_Pieces
        numerics.quadrature:Rule numerics.special:MillsRatios numerics.special_links:Cloglog
        numerics.special_links:CloglogInformation numerics.stacking:Stacking numerics.threshold_averages:Link
        numerics.truncated_normals:CutNormal
        numerics.threshold_averages:_Nodes numerics.threshold_averages:_Rows numerics.threshold_averages:_Window
        numerics.transforms:Slopes numerics.transforms:_Sigmoids numerics.weighted_draws:Smoothed
    """,
    "derived from the rest on demand (cached properties)": """
        model.likelihoods.family_likelihood:CanonicalForm model.likelihoods.family_likelihood:LogMeanForm
        model.likelihoods.family_likelihood:ThresholdForm numerics.substitution:Strip
        numerics.substitution:Substitution
    """,
    "read from the text of a formula, which is what is kept": """
        tables.formula_functions:BSplines tables.formula_functions:Centred tables.formula_functions:NaturalSpline
        tables.formula_functions:Polynomial tables.formula_functions:Scaled
    """,
    "pipelines of a comparison of tables, which hold the table; its models are saved one by one": """
        estimators.prepared:PreparedColumns tables.comparing:TableComparison tables.comparing:_Filled
    """,
    "verdicts that need the rows of the fit": """
        estimators.certificate:Certificate estimators.certificate:Found estimators.certified_function:CorrectedFunction
        estimators.certified_weights:CorrectedWeights
    """,
}


def classes():
    """Every class that objects can be made of in the rooms that models are made in."""
    for module in pkgutil.walk_packages(credibly.__path__, "credibly."):
        if module.name.split(".")[1] not in ROOMS:
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if not inspect.isclass(cls) or cls.__module__ != module.name or issubclass(cls, BaseException):
                continue
            if not inspect.isabstract(cls) and not getattr(cls, "_is_protocol", False):
                yield cls


def place(cls):
    return f"{cls.__module__.removeprefix('credibly.')}:{cls.__qualname__}"


EXCEPTIONS = {where for names in NEVER_HELD.values() for where in names.split()}


def test_every_class_is_in_the_table_or_has_a_reason_not_to_be():
    """If this fails: add the class to persistence/table.py if a fitted model can hold it, else to the list above."""
    assert sorted(place(cls) for cls in classes() if name_of(cls) is None and place(cls) not in EXCEPTIONS) == []


def test_no_exception_is_in_the_table():
    assert sorted(place(cls) for cls in classes() if name_of(cls) is not None and place(cls) in EXCEPTIONS) == []


@pytest.mark.parametrize("name", CLASSES)
def test_every_name_leads_to_a_class_that_objects_can_be_made_of(name):
    cls = class_named(name)
    assert inspect.isclass(cls) and not inspect.isabstract(cls)
    assert name_of(cls) == name
    if cls.__module__.startswith("credibly."):
        assert CLASSES[name] == f"{cls.__module__}:{cls.__qualname__}"


def test_a_derived_class_is_another_class():
    assert name_of(type("Normal", (credibly.Normal,), {})) is None


@pytest.mark.parametrize("name", CLASSES)
def test_other_classes_keep_what_their_constructor_was_given(name):
    """What `classes` relies on for those that are neither dataclasses, named tuples nor enumerations."""
    cls = class_named(name)
    if dataclasses.is_dataclass(cls) or hasattr(cls, "_fields") or issubclass(cls, Enum):
        return
    given = {
        "likelihood": credibly.model.likelihoods.BernoulliLogit(),
        "dist": __import__("scipy.stats").stats.laplace(),
        "mixture": credibly.NormalMixture([1.0], [0.0], [1.0]),
        "df": 3.0,
        "steps": [("model", credibly.LinearDiscriminant())],
        "models": [],
        "k1": None,
        "k2": None,
        "kernel": None,
        "exponent": 2,
    }
    parameters = inspect.signature(cls).parameters.values()
    made = cls(**{it.name: given[it.name] for it in parameters if it.default is it.empty})
    assert {it.name for it in parameters} <= fields_of(made).keys()


HELD_ELSEWHERE = {"sklearn.ExpSineSquared"}  # takes one column only; its class is tested above


def test_the_cases_hold_every_class_of_the_table():
    """So that each of them is saved and loaded by some test."""
    seen: set[str] = set()

    def walk(value, known):
        if id(value) in known:
            return
        known[id(value)] = value
        name = name_of(type(value))
        if name is not None:
            seen.add(name)
            value = [] if isinstance(value, Enum) else list(fields_of(value).values())
        if isinstance(value, dict):
            value = [*value, *value.values()]
        if isinstance(value, list | tuple | set):
            for item in value:
                walk(item, known)

    for case in CASES.values():
        walk(case().model, {})
    assert sorted(CLASSES.keys() - seen - HELD_ELSEWHERE) == []
