# What a user can ask for, beside `all`: `snakemake --cores all TARGET`, with the options after the target.
rule majority:
    """The majority task: Figures 1a, 1b, 2a, 2b and 3, those of every experiment, and their tables."""
    input:
        of_category(figures_registry.MAJORITY),
        of_module("majority"),


rule random_keys:
    """Random keys: Figures 1c and 1d, the comparison with the exact expectation, and the law of widths."""
    input:
        of_category(figures_registry.RANDOM_KEYS),
        of_module("random_keys"),


rule language_model:
    """The language models: Figure 4, Tables 1 to 4, and the keys of the heads."""
    input:
        of_category(figures_registry.LANGUAGE_MODELS),
        of_module("language_model"),


rule pretrained:
    """Pretrained models: which keys of their heads can win, and how much attention they can get."""
    input:
        of_category(figures_registry.PRETRAINED),
        of_module("pretrained"),


rule statements:
    """What other documents say about LayerNorm: a figure for each statement that was measured."""
    input:
        of_category(figures_registry.STATEMENTS),
        of_module("statements"),


rule evidence:
    """Every verdict, and the page that shows them: results/<name>/report.html."""
    input:
        f"{RUN}/report.html",


rule published_figures:
    """The figures and tables of the kept reproduction, drawn again from its Parquet files without training."""
    input:
        figure_files(KEPT.folder, KEPT.figures()),
        readable(KEPT.folder, tables_registry.made_from(KEPT.tables())),


rule published_report:
    """The page of the kept reproduction, written again from its Parquet files."""
    input:
        f"{KEPT.folder}/report.html",
