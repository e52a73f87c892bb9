{
  description = "low: compiles neural-network blocks into tile programs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      system = "x86_64-linux";
      pkgs = nixpkgs.legacyPackages.${system};
      llvm = pkgs.llvmPackages_19;
      # GPUs' kernels: its loops of matrix instructions are denser, and it has all chips.
      gpuLlvm = pkgs.llvmPackages_22;

      # What lowc runs to compile kernels: a wrapped clang, which knows where the C++ library is, and lld.
      clang = "${llvm.clang}/bin/clang++";
      linker = pkgs.lib.makeBinPath [ llvm.lld ];
      # Kernels of GPUs include no header: clang as it is, with its own version's lld first in its PATH.
      gpuClang = pkgs.writeShellScript "clang++-gpu" ''
        PATH=${pkgs.lib.makeBinPath [ gpuLlvm.lld ]}:$PATH exec ${gpuLlvm.clang-unwrapped}/bin/clang++ "$@"
      '';

      # For `./dev test`, which makes ONNX's node tests with wheels from the network: those look for the C++ library outside
      # of the store.
      python311 = pkgs.python311.withPackages (packages: [ packages.pip ]);
      python = pkgs.writeShellScriptBin "python3.11" ''
        LD_LIBRARY_PATH=${pkgs.lib.makeLibraryPath [ pkgs.stdenv.cc.cc.lib ]} exec ${python311}/bin/python3.11 "$@"
      '';

      common = {
        version = "0.1.0";
        src = self;
        strictDeps = true;
        nativeBuildInputs = [
          pkgs.cmake
          pkgs.ninja
          pkgs.pkg-config
          pkgs.protobuf_21
          llvm.lld
        ];
        # Debian 12 has protobuf 21, too: later ones need abseil and another way of linking.
        buildInputs = [
          pkgs.boost
          pkgs.cli11
          pkgs.fmt
          pkgs.libzip
          pkgs.nlohmann_json
          pkgs.openssl
          pkgs.protobuf_21
          pkgs.spdlog
          pkgs.zlib
        ];
        cmakeBuildType = "Release";
      };

      lowc = llvm.stdenv.mkDerivation (
        common
        // {
          pname = "lowc";
          nativeBuildInputs = common.nativeBuildInputs ++ [ pkgs.makeWrapper ];
          cmakeFlags = [
            "-DLOW_TESTS=OFF"
            "-DLOW_CLANG=${clang}"
            "-DLOW_GPU_CLANG=${gpuClang}"
          ];
          ninjaFlags = [ "lowc" ];
          # The wrapped clang adds hardening flags, and flags of the shell it is called from: a package's bytes must
          # depend on neither.
          installPhase = ''
            runHook preInstall
            install -Dm755 compiler/lowc/lowc $out/bin/lowc
            wrapProgram $out/bin/lowc \
              --prefix PATH : ${linker} \
              --set NIX_HARDENING_ENABLE "" \
              --unset NIX_CFLAGS_COMPILE --unset NIX_CFLAGS_LINK --unset NIX_LDFLAGS
            runHook postInstall
          '';
          meta = {
            description = "Compiler from ONNX models to tile programs";
            license = pkgs.lib.licenses.asl20;
            mainProgram = "lowc";
            platforms = [ system ];
          };
        }
      );

      # Everything but ONNX's node tests, which are made with packages from the network.
      tests = llvm.stdenv.mkDerivation (
        common
        // {
          pname = "low-tests";
          buildInputs = common.buildInputs ++ [ pkgs.gtest ];
          cmakeFlags = [
            "-DLOW_CLANG=${clang}"
            "-DLOW_GPU_CLANG=${gpuClang}"
            "-DLOW_GPU_OBJDUMP=${gpuLlvm.llvm}/bin/llvm-objdump"
          ];
          doCheck = true;
          checkPhase = ''
            runHook preCheck
            NIX_HARDENING_ENABLE= ctest --output-on-failure --no-tests=error -j "$NIX_BUILD_CORES" -LE onnx-node
            runHook postCheck
          '';
          installPhase = "touch $out";
        }
      );

      # The twin of `./dev demo`.
      demo = pkgs.writeShellApplication {
        name = "low-demo";
        runtimeInputs = [ lowc ];
        text = ''
          lowc() {
            printf '+ lowc %s\n' "$*"
            command lowc "$@"
          }
          mkdir -p build/demo
          cd build/demo
          lowc workload mlp-b2-repeat3 -o mlp-b2-repeat3.onnx
          lowc compile mlp-b2-repeat3.onnx -o mlp-b2-repeat3.low
          lowc run mlp-b2-repeat3.low --random --seed 1
          lowc verify mlp-b2-repeat3.onnx --package mlp-b2-repeat3.low
        '';
      };

      app = program: {
        type = "app";
        inherit program;
      };
    in
    {
      packages.${system} = {
        default = lowc;
        inherit lowc demo;
      };

      checks.${system} = {
        default = tests;
        inherit tests;
      };

      apps.${system} = {
        default = app "${lowc}/bin/lowc";
        demo = app "${demo}/bin/low-demo";
      };

      devShells.${system}.default = (pkgs.mkShell.override { inherit (llvm) stdenv; }) {
        packages =
          common.nativeBuildInputs
          ++ common.buildInputs
          ++ [
            pkgs.ccache
            pkgs.gbenchmark
            pkgs.gtest
            python
            pkgs.unzip
            # The presets and `./dev` use Debian's names of the tools.
            (pkgs.runCommand "llvm-names" { } ''
              mkdir -p $out/bin
              ln -s ${clang} $out/bin/clang++-19
              ln -s ${gpuClang} $out/bin/clang++-22
              ln -s ${gpuLlvm.llvm}/bin/llvm-objdump $out/bin/llvm-objdump-22
              ln -s ${llvm.clang-tools}/bin/clang-format $out/bin/clang-format-19
              ln -s ${llvm.clang-tools}/bin/clang-tidy $out/bin/clang-tidy-19
            '')
          ];
      };
    };
}
