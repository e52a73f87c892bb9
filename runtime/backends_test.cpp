#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/backends.h"

namespace low {
namespace {

using testing::HasSubstr;

TEST(Backends, HostAndHip) {
  const auto all = backends();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "host");
  EXPECT_EQ(all[0].devices.empty(), !all[0].unavailable.empty());
  EXPECT_EQ(all[1].name, "hip");
  EXPECT_TRUE(all[1].devices.empty());
  EXPECT_EQ(all[1].unavailable, "the HIP backend is not part of this version");
  EXPECT_EQ(all[1].open("hip:0", {}).error().kind, ErrorKind::device);
}

TEST(Backends, OpenByName) {
  const auto host = open_device("host", {2});
  ASSERT_TRUE(host) << host.error().message;
  EXPECT_EQ((*host)->info().name, "host");
  EXPECT_THAT((*host)->info().description, HasSubstr("2 threads"));
  for (const std::string_view name : {"hip", "hip:0"}) {
    const auto hip = open_device(name, {});
    ASSERT_FALSE(hip);
    EXPECT_EQ(hip.error().kind, ErrorKind::device);
    EXPECT_THAT(hip.error().message, HasSubstr("the HIP backend is not part of this version"));
    EXPECT_THAT(hip.error().message, HasSubstr("expected one of: host"));
  }
  for (const std::string_view name : {"", "hos", "hosts", "cuda:0", "host:0"}) {
    const auto device = open_device(name, {});
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().kind, ErrorKind::device);
    EXPECT_THAT(device.error().message, HasSubstr("expected one of: host"));
  }
}

}  // namespace
}  // namespace low
