-- Each run of a job with GPUs that has ended, a line each. slurmctld writes its own state some seconds
-- late, and forgets them when it is killed; `partita slurm serve` then tells it again.
local MOST = 1000000 -- bytes
local NO_TASK = 4294967294

local function id_of(job)
  if job.array_job_id ~= 0 and job.array_task_id ~= NO_TASK then
    return string.format("%d_%d", job.array_job_id, job.array_task_id)
  end
  return string.format("%d", job.job_id)
end

function slurm_jobcomp_log_record(job)
  if job.comment == nil or job.comment:sub(1, 8) ~= "partita " then return slurm.SUCCESS end
  local file = io.open(ENDED, "a")
  if file ~= nil and file:seek("end") > MOST then
    file:close()
    os.rename(ENDED, ENDED .. ".old")
    file = io.open(ENDED, "a")
  end
  if file == nil then return slurm.ERROR end
  file:write(string.format("%s %d %d %d %d %d\n", id_of(job), job.submit_time, job.restart_cnt,
                           job.job_state % 256, job.exit_code, os.time()))
  file:close()
  return slurm.SUCCESS
end

return slurm.SUCCESS
