// Slurm's plugin on submission hosts and nodes (docs/slurm.md). Option --mig=SHAPE[:COUNT][,...]:
// job_submit.lua makes a --gres of it. On a node, in slurmstepd: what the prolog has written of the
// job's instances goes into its environment, and its tasks into a cgroup (version 2) that may open
// no device node of NVIDIA's but theirs. A batch job's end waits for slurmctld, what it took is
// told before it, and one of which slurmctld has forgotten that it began does not run again.
// Arguments in plugstack.conf: jobs=FOLDER, %n being the node's name; confine=no; root=FOLDER of
// the device nodes, for trials.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

extern "C" {  // the headers are C's
#include <slurm/slurm.h>
#include <slurm/spank.h>
}

namespace {

constexpr int kPings = 120;
constexpr unsigned kBetweenPingsUs = 250'000;
constexpr int kLooks = 20;  // as long apart

struct Settings {
  std::string jobs = "/run/partita/slurm/%n", root, mig;
  bool confine = true;
};
Settings settings;
std::string made;  // the cgroup of this step

// The batch script of this step.
struct Script {
  std::time_t began = 0, ended = 0;
  bool by_itself = false;  // it came to its end
  // Of its job, before it. Slurm 22.05 tells the script's own process alone, which writes it here.
  std::uint32_t* restarts = nullptr;
};
Script script;

using Device = std::pair<unsigned, unsigned>;  // major, minor

void read_settings(int count, char* words[]) {
  for (int i = 0; i < count; ++i) {
    const std::string word = words[i];
    if (word.starts_with("jobs=")) settings.jobs = word.substr(5);
    if (word.starts_with("root=")) settings.root = word.substr(5);
    if (word == "confine=no") settings.confine = false;
  }
}

int take_mig(int, const char* value, int) {
  settings.mig = value;
  return ESPANK_SUCCESS;
}

// The files about jobs on this node: the folder, and the number of this step's job; a job with
// instances has one node.
std::pair<std::string, std::string> place_of(spank_t step) {
  std::uint32_t job = 0;
  std::array<char, 256> node{};
  if (spank_get_item(step, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_getenv(step, "SLURM_JOB_NODELIST", node.data(), static_cast<int>(node.size())) !=
          ESPANK_SUCCESS)
    return {};
  std::string folder = settings.jobs;
  if (const std::size_t at = folder.find("%n"); at != std::string::npos)
    folder.replace(at, 2, node.data());
  return {folder, std::to_string(job)};
}

// "NAME=VALUE" lines of what the prolog has written for the job of this step.
std::vector<std::string> told(spank_t step) {
  const auto [folder, job] = place_of(step);
  std::ifstream file(folder + "/" + job + ".env");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<Device> devices_of(const std::vector<std::string>& lines) {
  constexpr const char* kKey = "PARTITA_LEASE_DEVICE_NODES=";
  std::vector<Device> devices;
  for (const std::string& line : lines) {
    if (!line.starts_with(kKey)) continue;
    std::istringstream paths(line.substr(std::strlen(kKey)));
    for (std::string path; std::getline(paths, path, ':');) {
      struct stat node {};
      if (::stat((settings.root + path).c_str(), &node) == 0 && S_ISCHR(node.st_mode))
        devices.emplace_back(major(node.st_rdev), minor(node.st_rdev));
    }
  }
  return devices;
}

bpf_insn instruction(unsigned code, unsigned to, unsigned from, int offset, int value) {
  bpf_insn one{};
  one.code = static_cast<__u8>(code);
  one.dst_reg = to & 15U;
  one.src_reg = from & 15U;
  one.off = static_cast<__s16>(offset);
  one.imm = value;
  return one;
}

// Of device nodes with a major number of `devices` those alone; all others as before. r2, r3, r4:
// major, minor and type of the node that is opened.
std::vector<bpf_insn> filter(const std::vector<Device>& devices) {
  std::vector<bpf_insn> code;
  const auto is_not = [&](unsigned reg, unsigned value, int skip) {
    code.push_back(instruction(BPF_JMP | BPF_JNE | BPF_K, reg, 0, skip, static_cast<int>(value)));
  };
  const auto answer = [&](int value) {
    code.push_back(instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, value));
    code.push_back(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
  };
  for (const auto& [reg, offset] : {std::pair{2U, 4}, {3U, 8}, {4U, 0}})
    code.push_back(instruction(BPF_LDX | BPF_MEM | BPF_W, reg, 1, offset, 0));
  code.push_back(instruction(BPF_ALU64 | BPF_AND | BPF_K, 4, 0, 0, 0xffff));
  code.push_back(
      instruction(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 2, BPF_DEVCG_DEV_CHAR));  // else: not ours
  answer(1);
  std::set<unsigned> majors;
  for (const auto& [number, minor] : devices) {
    majors.insert(number);
    is_not(2, number, 3);
    is_not(3, minor, 2);
    answer(1);
  }
  for (const unsigned number : majors) {
    is_not(2, number, 2);
    answer(0);
  }
  answer(1);
  return code;
}

std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uint64_t>(data); }

// Whether processes of this cgroup are kept to the devices from now on.
bool attach(const std::string& cgroup, const std::vector<Device>& devices) {
  const std::vector<bpf_insn> code = filter(devices);
  bpf_attr load{};
  load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  load.insns = address_of(code.data());
  load.insn_cnt = static_cast<__u32>(code.size());
  load.license = address_of("Apache-2.0");
  const long program = ::syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
  const int folder = ::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bpf_attr put{};
  put.target_fd = static_cast<__u32>(folder);
  put.attach_bpf_fd = static_cast<__u32>(program);
  put.attach_type = BPF_CGROUP_DEVICE;
  put.attach_flags = BPF_F_ALLOW_MULTI;
  const bool done =
      program >= 0 && folder >= 0 && ::syscall(SYS_bpf, BPF_PROG_ATTACH, &put, sizeof put) == 0;
  if (folder >= 0) ::close(folder);
  if (program >= 0) ::close(static_cast<int>(program));
  return done;
}

// Where version 2 is mounted, and below it the cgroup that a process is in; "": nowhere.
std::string cgroup_of(::pid_t process) {
  std::string mount, device, folder, type, rest;
  std::ifstream mounts("/proc/self/mounts");
  while (mounts >> device >> folder >> type && std::getline(mounts, rest))
    if (type == "cgroup2") mount = folder;
  std::ifstream lines("/proc/" + std::to_string(process) + "/cgroup");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("0::") && !mount.empty())
      return mount + (line == "0::/" ? "" : line.substr(3));
  return {};
}

// Why it did not come to that; "": it did, or nothing is to be done.
std::string confine(::pid_t process, const std::vector<Device>& devices, const std::string& name) {
  const std::string home = cgroup_of(process);
  if (home.empty()) return "there are no cgroups of version 2 here";
  const std::string cgroup = home + "/" + name;
  const bool first = ::mkdir(cgroup.c_str(), 0755) == 0;
  if (!first && errno != EEXIST) return cgroup + ": " + std::strerror(errno);
  made = cgroup;
  if (first && !attach(cgroup, devices)) return cgroup + ": no filter: " + std::strerror(errno);
  std::ofstream processes(cgroup + "/cgroup.procs");
  processes << process << std::flush;
  return processes ? "" : cgroup + ": " + std::strerror(errno);
}

bool is_batch_script(spank_t step) {
  std::uint32_t number = 0;
  return spank_remote(step) == 1 && spank_get_item(step, S_JOB_STEPID, &number) == ESPANK_SUCCESS &&
         number == SLURM_BATCH_SCRIPT;
}

// A function of Slurm's own library, which is in the program that has loaded this.
template <class Function>
Function* of_slurm(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

bool controller_answers() {
  const auto ping = of_slurm<int(int)>("slurm_ping");
  return ping == nullptr || ping(0) == 0 || ping(1) == 0;
}

// slurmstepd says next that the job has ended, and where slurmctld is away waits 15 s before it
// says so again. In these a slurmctld that is back takes the job for running, and begins it anew if
// its node fails.
void await_controller() {
  for (int i = 0; i < kPings && !controller_answers(); ++i) ::usleep(kBetweenPingsUs);
}

// What slurmctld, if it answers, says of a job, or of all tasks of an array.
std::vector<slurm_job_info_t> jobs_of_slurm(std::uint32_t number) {
  const auto load = of_slurm<int(job_info_msg_t**, std::uint32_t, std::uint16_t)>("slurm_load_job");
  job_info_msg_t* found = nullptr;
  if (load == nullptr || load(&found, number, 0) != 0) return {};
  return {found->job_array, found->job_array + found->record_count};  // kept: the step ends soon
}

// Whether slurmctld, if it answers, has put the job back or ended it: who is told so while a job is
// launched finds no process to end, and it would run all the same.
bool is_called_off(spank_t step) {
  std::uint32_t job = 0;
  if (spank_get_item(step, S_JOB_ID, &job) != ESPANK_SUCCESS || !controller_answers()) return false;
  for (const slurm_job_info_t& one : jobs_of_slurm(job)) {
    const std::uint32_t state = one.job_state & JOB_STATE_BASE;
    const bool runs = state == JOB_RUNNING || state == JOB_SUSPENDED;
    if (one.job_id == job && (!runs || (one.job_state & JOB_COMPLETING) != 0)) return true;
  }
  return false;
}

// Before the script's process is there.
void expect_script() {
  script.began = std::time(nullptr);
  void* shared = ::mmap(nullptr, sizeof *script.restarts, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) script.restarts = static_cast<std::uint32_t*>(shared);
}

// A job, or a task of an array, of slurmctld's.
struct Number {
  std::uint32_t job = 0, array = 0, task = 0;  // no array: 0
  std::string text() const {
    return array == 0 ? std::to_string(job) : std::to_string(array) + "_" + std::to_string(task);
  }
};

std::optional<Number> number_of(spank_t step) {
  Number number;
  if (spank_get_item(step, S_JOB_ID, &number.job) != ESPANK_SUCCESS) return std::nullopt;
  if (spank_get_item(step, S_JOB_ARRAY_ID, &number.array) != ESPANK_SUCCESS ||
      spank_get_item(step, S_JOB_ARRAY_TASK_ID, &number.task) != ESPANK_SUCCESS)
    number.array = 0;
  return number;
}

// What slurmctld says of it; of a task of an array that waits, of all that wait.
std::optional<slurm_job_info_t> told_by_slurm(const Number& number) {
  std::optional<slurm_job_info_t> found;
  const bool of_array = number.array != 0;
  for (const slurm_job_info_t& one : jobs_of_slurm(of_array ? number.array : number.job)) {
    const bool its_own = of_array ? one.array_task_id == number.task : one.job_id == number.job;
    if (its_own || (of_array && one.array_task_id == NO_VAL && !found)) found = one;
  }
  return found;
}

// Whether a job that waits is this script's run. A requeue that slurmctld knows of has counted a
// restart more. It may have given the number to a new job, submitted later; but so is one whose
// requeue it has begun to carry out before it was killed and ends only now. One that it has begun
// again already is put back since slurmd launches no second copy while this step is there.
bool is_this_run(const slurm_job_info_t& job) {
  constexpr const char* kNotLaunched = "launch failed requeued held";
  if ((job.job_state & JOB_STATE_BASE) != JOB_PENDING) return false;
  if (job.restart_cnt == *script.restarts + 1)
    return job.state_desc != nullptr && std::strcmp(job.state_desc, kNotLaunched) == 0;
  return job.restart_cnt <= *script.restarts &&
         (job.submit_time <= script.began ||
          (job.restart_cnt > 0 && job.restart_cnt == *script.restarts));
}

// Whether slurmctld has begun it after this script's end; it is put back a moment later.
bool is_begun_again(const slurm_job_info_t& job) {
  return (job.job_state & JOB_STATE_BASE) == JOB_RUNNING && job.restart_cnt == *script.restarts &&
         job.start_time > script.ended;
}

// A slurmctld that was killed may take for waiting what has begun. It passes over the end of such a
// job and would begin it again; nothing ends one that waits but to cancel it.
void withdraw_if_forgotten(spank_t step) {
  const auto kill_job =
      of_slurm<int(const char*, std::uint16_t, std::uint16_t, const char*)>("slurm_kill_job2");
  const auto number = number_of(step);
  if (kill_job == nullptr || !script.by_itself || script.restarts == nullptr || !number) return;
  for (int look = 0; look < kLooks; ++look, ::usleep(kBetweenPingsUs)) {
    const auto job = told_by_slurm(*number);
    if (!job || (!is_this_run(*job) && !is_begun_again(*job))) return;
    if (!is_this_run(*job)) continue;
    slurm_info("partita: slurmctld has forgotten that job %s began; it has ended",
               number->text().c_str());
    if (kill_job(number->text().c_str(), SIGKILL, 0, nullptr) != 0)
      slurm_error("partita: job %s is not withdrawn", number->text().c_str());
    return;
  }
}

// What `partita slurm meter` wrote: joules by device, and under "since" when it began.
std::map<std::string, double> metered(const std::string& path) {
  std::map<std::string, double> all;
  std::ifstream file(path);
  double value = 0;
  for (std::string word; file >> word >> value;) all[word] = value;
  return all;
}

// What is said of a job: what its instances have taken and, where it is known, its part of what
// CPUs and memory have, and of that the idle power.
std::string text_of(double joules, const std::map<std::string, double>& now,
                    const std::string& job) {
  std::string text = "partita joules=" + std::to_string(std::llround(joules));
  for (const auto& [key, name] : {std::pair("host/", " host_joules="),
                                  std::pair("idle/", " host_idle_joules=")})
    if (const auto found = now.find(key + job); found != now.end())
      text += name + std::to_string(std::llround(found->second));
  return text;
}

// As told of the job; nothing: nobody measured its instances all the while.
std::optional<std::string> joules_of(spank_t step, const std::vector<std::string>& lines) {
  constexpr const char* kKey = "CUDA_VISIBLE_DEVICES=";
  const auto [folder, job] = place_of(step);
  auto before = metered(folder + "/" + job + ".joules"), now = metered(folder + "/joules");
  if (before.empty() || before["since"] != now["since"]) return std::nullopt;
  double sum = 0;
  for (const std::string& line : lines) {
    if (!line.starts_with(kKey)) continue;
    std::istringstream devices(line.substr(std::strlen(kKey)));
    for (std::string device; std::getline(devices, device, ',');)
      sum += now[device] - before[device];
  }
  return text_of(sum, now, job);
}

// Into the job, as long as it runs: Slurm changes nothing of one that has ended.
void tell_joules(spank_t step, std::string text) {
  const auto init = of_slurm<void(job_desc_msg_t*)>("slurm_init_job_desc_msg");
  const auto update = of_slurm<int(job_desc_msg_t*)>("slurm_update_job");
  job_desc_msg_t job{};
  if (init == nullptr || update == nullptr ||
      spank_get_item(step, S_JOB_ID, &job.job_id) != ESPANK_SUCCESS)
    return;
  const std::uint32_t id = job.job_id;
  init(&job);
  job.job_id = id;
  job.admin_comment = text.data();
  if (update(&job) != 0) slurm_error("partita: the joules of job %u are not told", id);
}

}  // namespace

extern "C" {

extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
const char plugin_name[] = "partita";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

int slurm_spank_init(spank_t step, int count, char* words[]) {
  read_settings(count, words);
  static char name[] = "mig", shape[] = "SHAPE[:COUNT]",
              about[] = "MIG instances for the job, as 3g.40gb or 1g.10gb:2,2g.20gb";
  spank_option option{name, shape, about, 1, 0, take_mig};
  return spank_option_register(step, &option);
}

// For job_submit.lua: shapes, and whether srun submits, whose step asks for the job's --gres again.
int slurm_spank_init_post_opt(spank_t step, int, char*[]) {
  if (spank_remote(step) == 1) return ESPANK_SUCCESS;
  if (spank_context() == S_CTX_LOCAL) spank_job_control_setenv(step, "PARTITA_SRUN", "1", 1);
  if (settings.mig.empty()) return ESPANK_SUCCESS;
  return spank_job_control_setenv(step, "PARTITA_MIG", settings.mig.c_str(), 1);
}

int slurm_spank_user_init(spank_t step, int, char*[]) {
  if (is_batch_script(step)) expect_script();
  for (const std::string& line : told(step))
    if (const std::size_t equals = line.find('='); equals != std::string::npos)
      spank_setenv(step, line.substr(0, equals).c_str(), line.substr(equals + 1).c_str(), 1);
  return ESPANK_SUCCESS;
}

// In the task's own process, as its user.
int slurm_spank_task_init(spank_t step, int, char*[]) {
  std::array<char, 16> restarts{};
  if (script.restarts != nullptr &&
      spank_getenv(step, "SLURM_RESTART_COUNT", restarts.data(),
                   static_cast<int>(restarts.size())) == ESPANK_SUCCESS)
    *script.restarts = static_cast<std::uint32_t>(std::strtoul(restarts.data(), nullptr, 10));
  return ESPANK_SUCCESS;
}

// The task waits in its own process, where Slurm has put it.
int slurm_spank_task_post_fork(spank_t step, int, char*[]) {
  ::pid_t process = 0;
  std::uint32_t job = 0, number = 0;
  const std::vector<std::string> lines = told(step);
  if (lines.empty()) return ESPANK_SUCCESS;
  if (spank_get_item(step, S_TASK_PID, &process) != ESPANK_SUCCESS ||
      spank_get_item(step, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_get_item(step, S_JOB_STEPID, &number) != ESPANK_SUCCESS)
    return ESPANK_ERROR;
  // By a signal, as its end was meant: an error here would drain the node.
  if (is_batch_script(step) && is_called_off(step)) {
    slurm_info("partita: job %u was called off while it was launched", job);
    ::kill(process, SIGKILL);
    return ESPANK_SUCCESS;
  }
  const std::vector<Device> devices = devices_of(lines);
  if (!settings.confine || devices.empty()) return ESPANK_SUCCESS;
  const std::string why =
      confine(process, devices, "partita-" + std::to_string(job) + "." + std::to_string(number));
  if (why.empty()) return ESPANK_SUCCESS;
  slurm_error("partita: %s", why.c_str());
  return ESPANK_ERROR;
}

// Of salloc and srun there is no script that ends last: each of their steps tells, when the last of
// its tasks here has ended and before srun hears of it and ends the job.
int slurm_spank_task_exit(spank_t step, int, char*[]) {
  static std::uint32_t ended = 0;
  std::uint32_t tasks = 0;
  int status = 0;
  if (is_batch_script(step)) {
    script.by_itself = script.began != 0 &&
                       spank_get_item(step, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS &&
                       WIFEXITED(status);
    script.ended = std::time(nullptr);
    return ESPANK_SUCCESS;
  }
  if (spank_get_item(step, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS || ++ended < tasks)
    return ESPANK_SUCCESS;
  const std::vector<std::string> lines = told(step);
  if (const auto joules = joules_of(step, lines); joules && !lines.empty())
    tell_joules(step, *joules);
  return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t step, int, char*[]) {
  if (!made.empty()) ::rmdir(made.c_str());
  const std::vector<std::string> lines = told(step);
  if (lines.empty() || !is_batch_script(step)) return ESPANK_SUCCESS;
  await_controller();
  if (const auto joules = joules_of(step, lines)) tell_joules(step, *joules);
  withdraw_if_forgotten(step);
  return ESPANK_SUCCESS;
}

}  // extern "C"
