#include "act/lease/lease_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::lease {
namespace {

using testing::HasSubstr;

// ---- what somebody wants

struct AskOf : testing::Test {
  AskOf() : processes(clock, [](const ProcessSpec&) { return SimBehaviour{}; }) {}
  std::string fault(const Wanted& wanted) {
    const auto asked = ask_of(wanted, processes, 1000);
    if (asked) return "";
    EXPECT_EQ(asked.error().code, ErrorCode::bad_input);
    return to_string(asked.error());
  }
  Take take(const Wanted& wanted) {
    return std::get<Take>(ask_of(wanted, processes, 1000).value());
  }

  ManualClock clock;
  SimProcesses processes;
};

TEST_F(AskOf, AnInstanceIsTaken) {
  const Take plain = take({.owner = "a", .profile = "3g.40gb"});
  EXPECT_EQ(plain.owner, "a");
  EXPECT_EQ(plain.profile, "3g.40gb");
  EXPECT_EQ(plain.gpu, std::nullopt);
  EXPECT_EQ(plain.start, std::nullopt);
  EXPECT_FALSE(plain.exact);
  EXPECT_EQ(plain.terms, std::nullopt);
  const Take all =
      take({.owner = "a", .profile = "1g", .gpu = 0, .start = 0, .exact = true, .ttl_s = 2.5});
  EXPECT_EQ(all.gpu, 0);
  EXPECT_EQ(all.start, 0);
  EXPECT_TRUE(all.exact);
  EXPECT_EQ(all.terms, (Terms{.until_ms = 3500}));
}

TEST_F(AskOf, ItStandsWhileAProcessLives) {
  const Pid pid = *processes.start({.argv = {"job"}});
  EXPECT_EQ(take({.owner = "a", .profile = "1g", .while_pid = pid}).terms,
            (Terms{.pid = pid, .identity = processes.identity(pid)}));
  EXPECT_EQ(fault({.owner = "a", .profile = "1g", .while_pid = 5}),
            "while: no process 5 lives here");
}

TEST_F(AskOf, OneIsHandedOver) {
  const auto asked = ask_of({.owner = "b", .profile = "1g", .ttl_s = 1, .from = "a"}, processes, 5);
  const HandOver over = std::get<HandOver>(asked.value());
  EXPECT_EQ(over.from, "a");
  EXPECT_EQ(over.to, "b");
  EXPECT_EQ(over.profile, "1g");
  EXPECT_EQ(over.terms, (Terms{.until_ms = 1005}));
  const auto plain = ask_of({.owner = "b", .from = "a"}, processes, 5);
  EXPECT_EQ(std::get<HandOver>(plain.value()).terms, Terms{});
}

TEST_F(AskOf, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(fault({.owner = "", .profile = "1g"}), HasSubstr("owner: '': an owner has a name"));
  EXPECT_THAT(fault({.owner = "b", .from = "a b"}), HasSubstr("from: 'a b': letters"));
  EXPECT_EQ(fault({.owner = "a"}), "profile: which shape? As in 3g.40gb");
  EXPECT_THAT(fault({.owner = "a", .profile = "1g", .exact = true}), HasSubstr("exact: where"));
  EXPECT_THAT(fault({.owner = "a", .profile = "1g", .ttl_s = 1, .while_pid = 1}),
              HasSubstr("ttl: a time or a process"));
  for (const double none : {0.0, -1.0})
    EXPECT_EQ(fault({.owner = "a", .profile = "1g", .ttl_s = none}),
              "ttl: a time above 0 is wanted");
  EXPECT_THAT(fault({.owner = "b", .gpu = 0, .from = "a"}), HasSubstr("from: what is handed over"));
  EXPECT_THAT(fault({.owner = "b", .start = 0, .from = "a"}), HasSubstr("from: what is handed"));
}

TEST(Wanted, IsADocument) {
  const Wanted all{.owner = "b",
                   .profile = "1g",
                   .gpu = 1,
                   .start = 2,
                   .exact = true,
                   .ttl_s = 1.5,
                   .while_pid = 7,
                   .from = "a"};
  const std::string text = wanted_json(all);
  EXPECT_EQ(text,
            "{\"owner\": \"b\", \"profile\": \"1g\", \"gpu\": 1, \"start\": 2, \"exact\": true, "
            "\"ttl_s\": 1.5, \"while_pid\": 7, \"from\": \"a\"}\n");
  const auto read = parse_wanted("w", text);
  ASSERT_TRUE(read);
  EXPECT_EQ(wanted_json(*read), text);
  EXPECT_EQ(wanted_json({.owner = "a"}), "{\"owner\": \"a\"}\n");
  EXPECT_TRUE(parse_wanted("w", R"({"owner": "a", "gpu": 1000000, "ttl_s": 1e9})"));
  for (const std::string wrong :
       {"{}", R"({"owner": ""})", R"({"owner": "a", "more": 1})", R"({"owner": "a", "gpu": -1})",
        R"({"owner": "a", "gpu": 1000001})", R"({"owner": "a", "start": -1})",
        R"({"owner": "a", "ttl_s": -1})", R"({"owner": "a", "ttl_s": 1000000002})",
        R"({"owner": "a", "while_pid": -1})", R"({"owner": "a", "while_pid": 9000000000000002})",
        R"({"owner": "a", "exact": 1})", R"({"owner": "a", "from": ""})"})
    EXPECT_FALSE(parse_wanted("w", wrong)) << wrong;
}

// ---- a lease

Lease some_lease() { return {{"3g.40gb", 4}, "it's", "MIG-b", 2, "GPU-a", 3, 1, 77}; }

// By the driver's rule of R450: gpu0/gi0 has 3, an instance 9 of them, a GPU 15 instances.
TEST(DeviceNodes, AreComputedWhereTheTableDoesNotNameThem) {
  const DeviceNodes nodes = device_nodes(some_lease(), "");
  EXPECT_EQ(nodes.gpu_minor, 2);
  EXPECT_EQ(nodes.gpu_instance_minor, 3 + 2 * 135 + 3 * 9);
  EXPECT_EQ(nodes.compute_instance_minor, 300 + 1 + 1);
  EXPECT_THAT(nodes.paths, testing::ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia2",
                                                "/dev/nvidia-caps/nvidia-cap300",
                                                "/dev/nvidia-caps/nvidia-cap302"));
}

TEST(DeviceNodes, AreTheTablesWhereItNamesThem) {
  const std::string table =
      "config 1\ngpu2/gi3/access 30\ngpu2/gi3/ci1/access 32\ngpu2/gi31/access 9\n";
  DeviceNodes nodes = device_nodes(some_lease(), table);
  EXPECT_EQ(nodes.gpu_instance_minor, 30);
  EXPECT_EQ(nodes.compute_instance_minor, 32);
  EXPECT_EQ(nodes.paths[3], "/dev/nvidia-caps/nvidia-cap30");
  nodes = device_nodes(some_lease(), "gpu2/gi3/access 0\nxgpu2/gi3/ci1/access 4");
  EXPECT_EQ(nodes.gpu_instance_minor, 0);
  EXPECT_EQ(nodes.compute_instance_minor, 302);
  nodes = device_nodes(some_lease(), "gpu2/gi3/access x\ngpu2/gi3/ci1/access 8");
  EXPECT_EQ(nodes.gpu_instance_minor, 300);
  EXPECT_EQ(nodes.compute_instance_minor, 8) << "also of a line without an end";
  Lease gone = some_lease();
  gone.uuid.clear();
  EXPECT_EQ(device_nodes(gone, table), DeviceNodes{});
}

LeaseDocument some_document() { return document_of(some_lease(), ""); }

TEST(LeaseForms, ALeaseIsADocument) {
  LeaseDocument document = some_document();
  document.lease.terms = {.until_ms = 99, .pid = 7};
  document.lease.busy = true;
  const std::string text = lease_json(document);
  EXPECT_EQ(text, R"({
  "api_version": "partita/v1",
  "kind": "Lease",
  "owner": "it's",
  "uuid": "MIG-b",
  "gpu": 2,
  "gpu_uuid": "GPU-a",
  "profile": "3g.40gb",
  "start": 4,
  "gi_id": 3,
  "ci_id": 1,
  "device_nodes": [
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia2",
    "/dev/nvidia-caps/nvidia-cap300",
    "/dev/nvidia-caps/nvidia-cap302"
  ],
  "minors": {
    "gpu": 2,
    "gpu_instance": 300,
    "compute_instance": 302
  },
  "since_ms": 77,
  "until_ms": 99,
  "while_pid": 7,
  "busy": true,
  "expired": false
}
)");
  EXPECT_EQ(*parse_lease("l", text), document);
  document = some_document();
  document.lease.gpu = -1;
  document.lease.uuid.clear();
  document.lease.expired = true;
  document.lease.terms.until_ms = 1;
  EXPECT_EQ(*parse_lease("l", lease_json(document)), document);
  document.lease.terms.until_ms = 0;
  EXPECT_EQ(*parse_lease("l", lease_json(document)), document);
  EXPECT_EQ(lease_json(document).find("until_ms"), std::string::npos);
  EXPECT_EQ(lease_json(document).find("while_pid"), std::string::npos);
}

TEST(LeaseForms, EveryFieldIsReadAndChecked) {
  const std::string good = lease_json(some_document());
  const auto reads = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    return parse_lease("l", text).has_value();
  };
  EXPECT_TRUE(reads("\"gpu\": 2", "\"gpu\": 1000000"));
  EXPECT_FALSE(reads("\"gpu\": 2", "\"gpu\": 1000001"));
  EXPECT_FALSE(reads("\"gpu\": 2", "\"gpu\": -2"));
  EXPECT_FALSE(reads("\"start\": 4", "\"start\": -1"));
  EXPECT_FALSE(reads("\"gi_id\": 3", "\"gi_id\": -1"));
  EXPECT_FALSE(reads("\"ci_id\": 1", "\"ci_id\": 1000001"));
  EXPECT_FALSE(reads("\"gpu_instance\": 300", "\"gpu_instance\": -1"));
  EXPECT_FALSE(reads("\"since_ms\": 77", "\"since_ms\": -1"));
  EXPECT_FALSE(reads("\"since_ms\": 77", "\"since_ms\": 9000000000000002"));
  EXPECT_FALSE(reads("\"since_ms\": 77", "\"since_ms\": 77, \"until_ms\": -1"));
  EXPECT_FALSE(reads("\"since_ms\": 77", "\"since_ms\": 77, \"while_pid\": 9000000000000002"));
  EXPECT_FALSE(reads("\"owner\": \"it's\"", "\"owner\": \"\""));
  EXPECT_FALSE(reads("\"gpu_uuid\": \"GPU-a\"", "\"gpu_uuid\": \"\""));
  for (const std::string key : {"api_version", "kind", "owner", "uuid", "gpu", "gpu_uuid",
                                "profile", "start", "gi_id", "ci_id", "device_nodes", "minors",
                                "gpu_instance", "compute_instance", "since_ms", "busy", "expired"})
    EXPECT_FALSE(reads("\"" + key + "\":", "\"x" + key + "\":")) << key;
}

TEST(LeaseForms, LeasesAreADocument) {
  LeasesDocument all{{some_document(), some_document()}, {"c", "d"}};
  all.leases[1].lease.owner = "b";
  const std::string text = leases_json(all);
  EXPECT_THAT(text, HasSubstr("\"kind\": \"Leases\""));
  const auto read = parse_leases_document("l", text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->leases, all.leases);
  EXPECT_EQ(read->returned, all.returned);
  const auto none = parse_leases_document(
      "l", R"({"api_version": "partita/v1", "kind": "Leases", "leases": []})");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->returned.empty());
  EXPECT_FALSE(parse_leases_document("l", R"({"leases": []})"));
}

TEST(LeaseForms, AreTextForPeopleAndShells) {
  EXPECT_EQ(lease_text(some_document()), "MIG-b is 3g.40gb at 4 of GPU 2, held by it's\n");
  EXPECT_EQ(lease_shell(some_document()),
            "export CUDA_VISIBLE_DEVICES='MIG-b'\n"
            "export PARTITA_LEASE_OWNER='it'\\''s'\n"
            "export PARTITA_LEASE_UUID='MIG-b'\n"
            "export PARTITA_LEASE_GPU='2'\n"
            "export PARTITA_LEASE_GPU_UUID='GPU-a'\n"
            "export PARTITA_LEASE_PROFILE='3g.40gb'\n"
            "export PARTITA_LEASE_START='4'\n"
            "export PARTITA_LEASE_DEVICE_NODES='/dev/nvidiactl:/dev/nvidia-uvm:/dev/nvidia2:"
            "/dev/nvidia-caps/nvidia-cap300:/dev/nvidia-caps/nvidia-cap302'\n"
            "export PARTITA_LEASE_MINORS='2 300 302'\n");
}

TEST(LeaseForms, ATableSaysWhatStandsUntilWhen) {
  EXPECT_EQ(leases_text({{}, {"c", "d"}}, 0),
            "the lease of c has ended\nthe lease of d has ended\nno leases stand\n");
  LeasesDocument all;
  all.leases.resize(5, some_document());
  all.leases[1].lease.terms.pid = 12;
  all.leases[2].lease.terms.until_ms = 3001;
  all.leases[2].lease.busy = true;
  all.leases[3].lease.terms.until_ms = 500;
  all.leases[3].lease.gpu = -1;
  all.leases[3].lease.uuid.clear();
  all.leases[4].lease.expired = true;
  all.leases[4].lease.gpu = 0;
  EXPECT_EQ(leases_text(all, 1000),
            "OWNER  GPU    PROFILE  START  UUID         USED  UNTIL\n"
            "it's   2      3g.40gb      4  MIG-b        -     returned\n"
            "it's   2      3g.40gb      4  MIG-b        -     process 12 ends\n"
            "it's   2      3g.40gb      4  MIG-b        yes   3 s\n"
            "it's   GPU-a  3g.40gb      4  (not there)  -     0 s\n"
            "it's   0      3g.40gb      4  MIG-b        -     now: it has expired\n");
  all.leases.resize(1);
  EXPECT_THAT(leases_text({all.leases, {"c"}}, 0),
              testing::StartsWith("the lease of c has ended\nOWNER"));
}

TEST(LeaseForms, ARefusalSaysWhatIsFree) {
  Refused refused{{"room", "gpu 1", 0, 1, "no room"}, {{1, "1g.10gb", {2, 3}}}};
  const std::string text = refusal_json(refused);
  EXPECT_EQ(text, R"({
  "api_version": "partita/v1",
  "kind": "Refusal",
  "reasons": [
    {
      "constraint": "room",
      "subject": "gpu 1",
      "have": 0.0,
      "need": 1.0,
      "detail": "no room"
    }
  ],
  "free": [
    {
      "gpu": 1,
      "profile": "1g.10gb",
      "starts": [
        2,
        3
      ]
    }
  ]
}
)");
  EXPECT_EQ(error_of(refused), (Error{ErrorCode::no_room, "gpu 1: no room", "owner"}));
  refused.reason.constraint = "owner";
  EXPECT_EQ(error_of(refused).code, ErrorCode::infeasible);
}

TEST(LeaseForms, HaveSchemas) {
  for (const auto& [kind, name, about, field] :
       std::vector<std::tuple<DocumentKind, std::string, std::string, std::string>>{
           {lease_kind(), "Lease", "an instance that somebody holds by name", "\"gpu_uuid\""},
           {leases_kind(), "Leases", "the leases that stand", "\"returned\""},
           {lease_wanted_kind(), "LeaseWanted", "what somebody wants to hold", "\"ttl_s\""}}) {
    EXPECT_EQ(kind.name, name);
    EXPECT_EQ(kind.about, about);
    EXPECT_THAT(kind.schema(), HasSubstr(field));
    EXPECT_THAT(kind.schema(), HasSubstr(about));
  }
}

}  // namespace
}  // namespace partita::lease
