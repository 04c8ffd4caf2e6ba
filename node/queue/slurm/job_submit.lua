-- Requests for MIG instances, --gres=gpu:3g.40gb:1, become counts of slices that Slurm knows how to
-- schedule, share and account. Such a job begins far away, so that Slurm keeps its priority and does
-- not start it, until `partita slurm serve` has a place for it; its comment begins with what it asked
-- for. Whole GPUs, --gres=gpu:1, stay Slurm's alone.
local AWAY = 365 * 86400
local MARK = "partita "

local function say(text)
  slurm.log_user("partita: %s", text)
  return slurm.ERROR
end

local function given(value)
  return value ~= nil and value ~= ""
end

local function is_shape(name)
  return name:match("^%d+g%.%d+gb") ~= nil or name:match("^%d+c%.%d+g%.%d+gb") ~= nil
end

local function shape_names()
  local names = {}
  for name in pairs(SHAPES) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

-- "gres:gpu:3g.40gb:2,gres:x:1" as { {name, type, count}, ... }; the prefix differs by version.
local function parts_of(text)
  local parts = {}
  for entry in text:gmatch("[^,]+") do
    entry = entry:gsub("^gres[:/]", "")
    local words = {}
    for word in entry:gmatch("[^:=]+") do words[#words + 1] = word end
    local count, type = 1, nil
    if #words >= 2 and words[#words]:match("^%d+$") then count = tonumber(words[#words]); words[#words] = nil end
    if #words >= 2 then type = words[2]:lower() end
    parts[#parts + 1] = { name = words[1], type = type, count = count }
  end
  return parts
end

local function others_of(parts)
  local others = {}
  for _, part in ipairs(parts) do
    if not part.ours then
      others[#others + 1] = "gres:" .. part.name .. (part.type and ":" .. part.type or "") .. ":" .. part.count
    end
  end
  return others
end

-- What the GPUs of a request come to: slices, memory slices, shapes, whole GPUs; or why not.
local function sum_of(parts)
  local sum = { slices = 0, memory = 0, shapes = {}, whole = 0, whole_part = nil }
  for _, part in ipairs(parts) do
    if part.name == "slice" or part.name == "mslice" then
      return nil, "slices are counted from shapes; ask for one, as --gres=gpu:" .. EXAMPLE .. ":1"
    elseif part.name == "gpu" and part.type ~= nil and is_shape(part.type) then
      local shape = SHAPES[part.type]
      if shape == nil then
        return nil, string.format("no GPU here makes a MIG instance %s; there are %s", part.type, shape_names())
      end
      if part.count > shape[3] then
        return nil, string.format("no node has room for %d instances %s; one has room for %d",
                                  part.count, part.type, shape[3])
      end
      sum.slices = sum.slices + part.count * shape[1]
      sum.memory = sum.memory + part.count * shape[2]
      for _ = 1, part.count do sum.shapes[#sum.shapes + 1] = part.type end
      part.ours = true
    elseif part.name == "gpu" and (part.type == nil or GPUS[part.type] ~= nil) then
      local gpu = WHOLE
      if part.type ~= nil then gpu = GPUS[part.type] end
      if gpu == nil then
        return nil, "there are several kinds of GPUs; say which, as --gres=gpu:TYPE:1, or ask for a MIG instance: " ..
                    shape_names()
      end
      part.ours = true
      sum.whole = sum.whole + part.count
      sum.whole_part = "gres:gpu" .. (part.type and ":" .. part.type or "")
      sum.slices = sum.slices + part.count * gpu[1]
      sum.memory = sum.memory + part.count * gpu[2]
    end
  end
  if #sum.shapes > 0 and sum.whole > 0 then
    return nil, "a job asks for MIG instances or for whole GPUs, not for both"
  end
  if sum.slices > MOST[1] or sum.memory > MOST[2] then
    return nil, string.format("that is %d slices and %d of memory on one node, and no node has more than %d and %d",
                              sum.slices, sum.memory, MOST[1], MOST[2])
  end
  return sum, nil
end

-- The first MIG instance that a request asks for.
local function shape_in(request)
  for _, part in ipairs(parts_of(request or "")) do
    if part.type ~= nil and is_shape(part.type) then return part.type end
  end
end

local function per_node(job)
  local request = job.tres_per_node
  for _, how in ipairs({ { "tres_per_job", "--gpus" }, { "tres_per_task", "--gpus-per-task" },
                         { "tres_per_socket", "--gpus-per-socket" } }) do
    local value = job[how[1]]
    if given(value) and value:match("gpu") and shape_in(value) ~= nil then
      return nil, "MIG instances are asked for with --gres, per node, not with " .. how[2]
    end
  end
  -- --mig=3g.40gb,1g.10gb:2 of the SPANK plugin is one more --gres. The step of an srun without a job
  -- asks for the same --gres as its job, which has slices instead.
  for _, word in pairs(job.spank_job_env or {}) do
    if word:match("PARTITA_SRUN=") then
      local shape = shape_in(job.tres_per_node)
      if shape ~= nil then
        return nil, string.format("Slurm refuses the step of srun --gres=gpu:%s; srun --mig=%s works, " ..
                                  "and srun inside salloc or sbatch --gres=gpu:%s:1", shape, shape, shape)
      end
    end
    local shapes = word:match("PARTITA_MIG=(.*)")
    for shape in (shapes or ""):gmatch("[^,]+") do
      request = (given(request) and request .. "," or "") .. "gres:gpu:" .. shape
    end
  end
  return request, nil
end

local function mark_of(job, sum)
  local mark = MARK .. "shapes=" .. (sum.whole > 0 and "whole*" .. sum.whole or table.concat(sum.shapes, ","))
  if given(job.req_nodes) and sum.whole == 0 then mark = mark .. " nodes=" .. job.req_nodes:gsub("%s", "") end
  if job.begin_time ~= nil and job.begin_time > os.time() then mark = mark .. " begin=" .. job.begin_time end
  if given(job.comment) then mark = mark .. " ; " .. job.comment end
  return mark
end

function slurm_job_submit(job, partitions, uid)
  if given(job.comment) and job.comment:sub(1, #MARK) == MARK then
    return say("a comment does not begin with 'partita'")
  end
  local request, why = per_node(job)
  if why ~= nil then return say(why) end
  if not given(request) then return slurm.SUCCESS end
  local parts = parts_of(request)
  local sum, wrong = sum_of(parts)
  if wrong ~= nil then return say(wrong) end
  if #sum.shapes == 0 and sum.whole == 0 then return slurm.SUCCESS end
  local wanted = others_of(parts)
  if sum.whole > 0 then wanted[#wanted + 1] = sum.whole_part .. ":" .. sum.whole end
  wanted[#wanted + 1] = "gres:slice:" .. sum.slices
  wanted[#wanted + 1] = "gres:mslice:" .. sum.memory
  if #sum.shapes > 0 then
    local nodes = job.min_nodes
    if nodes ~= nil and nodes ~= slurm.NO_VAL and nodes > 1 then
      return say("a job with MIG instances has one node; ask for -N 1")
    end
    job.min_nodes = 1
    job.max_nodes = 1
  end
  job.comment = mark_of(job, sum)
  job.tres_per_node = table.concat(wanted, ",")
  if #sum.shapes > 0 then job.begin_time = os.time() + AWAY end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  if uid == 0 or uid == MANAGER then return slurm.SUCCESS end
  local before = record.comment
  local marked = given(before) and before:sub(1, #MARK) == MARK
  if given(job.comment) and (marked or job.comment:sub(1, #MARK) == MARK) then
    return say("the comment of a job with GPUs says what it has; it stays")
  end
  if given(job.tres_per_node) then
    for _, part in ipairs(parts_of(job.tres_per_node)) do
      if marked or part.name == "gpu" or part.name == "slice" or part.name == "mslice" then
        return say("what a job has of GPUs is changed by submitting it anew")
      end
    end
  end
  return slurm.SUCCESS
end

return slurm.SUCCESS
