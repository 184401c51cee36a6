# The workflow in a container. Mount results/, or it is lost with the container:
#   docker build -t layernorm-roles .
#   docker run --rm -v "$PWD/results:/roles/results" layernorm-roles
# The user has the number 1000, as the first user of most Linux machines; for another, build with
# --build-arg USER_ID="$(id -u)".
#
# For the CPU's build of torch, which is smaller than the one with CUDA, name PyTorch's index of CPU builds (pytorch.org
# gives its address under "Get Started"): --build-arg PIP_EXTRA_INDEX_URL=ADDRESS. The version is that of constraints.txt.
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
ARG USER_ID=1000
RUN useradd --create-home --uid "$USER_ID" roles && install --directory --owner roles /roles /venv
USER roles
WORKDIR /roles
ENV PATH=/venv/bin:$PATH
RUN python -m venv /venv

# All packages, and a link to src/, which is still empty: an edit of the sources does not install torch again.
COPY --chown=roles pyproject.toml constraints.txt README.md LICENSE ./
ARG PIP_EXTRA_INDEX_URL=
RUN mkdir src && pip install --no-cache-dir -c constraints.txt -e '.[reproduction]'

COPY --chown=roles . .
ENTRYPOINT ["snakemake", "--cores", "all"]
