#!/bin/sh
# Prints what became of the job with the number $1: running (or waiting), success or failed.
state=$(scontrol show job "$1" 2>&1 | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p; s/.*Invalid job id.*/FORGOTTEN/p')
case $state in
    # SLURM forgets a job some minutes after its end; Snakemake then looks for the outputs itself.
    COMPLETED | FORGOTTEN) echo success ;;
    BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | TIMEOUT) echo failed ;;
    *) echo running ;;
esac
