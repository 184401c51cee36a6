# The two commands of the README in a container; results/ is to be mounted, or is lost with it:
#   docker build -t layernorm-roles . && docker run --rm -v "$PWD/results:/roles/results" layernorm-roles
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /roles
COPY . .
RUN pip install --no-cache-dir -c constraints.txt -e '.[reproduction]'
ENTRYPOINT ["snakemake", "--cores", "all"]
