#!/bin/bash -l
#SBATCH -J train --time=2-12:00:00   # a comment
#SBATCH --gres=gpu:3g.40gb:1 -c 4 -n2
#SBATCH --mem-per-cpu=4G --array=1-9:2%3 -d afterok:77
#SBATCH --comment="two words" -o out.%j -A lab
# nothing

module load cuda
#SBATCH --gres=gpu:8
srun python3 train.py --seed $SLURM_ARRAY_TASK_ID --job ${SLURM_JOB_ID}
