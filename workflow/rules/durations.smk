# Where the time went, from the benchmark files of all jobs, once the page is there.
rule durations:
    input:
        rules.evidence.input,
    output:
        csv=f"{RUN}/tables/durations.csv",
        md=f"{RUN}/tables/durations.md",
        png=f"{RUN}/figures/durations.png",
        pdf=f"{RUN}/figures/durations.pdf",
    log:
        f"{RUN}/logs/durations.log",
    params:
        benchmarks=f"{RUN}/benchmarks",
        code=code("evidence/durations", "evidence/style"),
    script:
        "../scripts/draw_durations.py"
