// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>

#include "shared_object.hpp"

namespace muster::detail {

/// The functions and constants of Open MPI that the runtime uses. They are loaded when a job first needs
/// them: a join takes less time without, and jobs on GPUs alone need no Open MPI.
struct MpiLibrary {
  /// The library, loaded on the first call. Thread-safe.
  /// @throws Error(ErrorCode::environment) when it cannot be loaded.
  static const MpiLibrary& get();
  /// Whether the program has already loaded and initialised Open MPI.
  static bool is_initialised();

  /// libmpi.so of the Open MPI that libmuster was built with, or the library that MUSTER_MPI_LIBRARY names.
  /// Its plugins use its symbols without naming it, so the symbols must be global.
  static constexpr const char* variable = "MUSTER_MPI_LIBRARY";
  static constexpr const char* file = MUSTER_MPI_FILE;
  SharedObject object{variable, file,
                      "collectives on host memory need Open MPI: is it installed on this node?",
                      ErrorCode::environment, RTLD_GLOBAL};
  decltype(::MPI_Init_thread)* init_thread = object.find("MPI_Init_thread");
  decltype(::MPI_Initialized)* initialized = object.find("MPI_Initialized");
  decltype(::MPI_Finalize)* finalize = object.find("MPI_Finalize");
  decltype(::MPI_Finalized)* finalized = object.find("MPI_Finalized");
  decltype(::MPI_Query_thread)* query_thread = object.find("MPI_Query_thread");
  decltype(::MPI_Error_string)* error_string = object.find("MPI_Error_string");
  decltype(::MPI_Comm_rank)* comm_rank = object.find("MPI_Comm_rank");
  decltype(::MPI_Comm_size)* comm_size = object.find("MPI_Comm_size");
  decltype(::MPI_Comm_idup)* comm_idup = object.find("MPI_Comm_idup");
  decltype(::MPI_Comm_split)* comm_split = object.find("MPI_Comm_split");
  decltype(::MPI_Comm_free)* comm_free = object.find("MPI_Comm_free");
  decltype(::MPI_Comm_get_attr)* comm_get_attr = object.find("MPI_Comm_get_attr");
  decltype(::MPI_Comm_set_errhandler)* comm_set_errhandler = object.find("MPI_Comm_set_errhandler");
  decltype(::MPI_Isend)* isend = object.find("MPI_Isend");
  decltype(::MPI_Irecv)* irecv = object.find("MPI_Irecv");
  decltype(::MPI_Iprobe)* iprobe = object.find("MPI_Iprobe");
  decltype(::MPI_Test)* test = object.find("MPI_Test");
  decltype(::MPI_Get_elements_x)* get_elements_x = object.find("MPI_Get_elements_x");
  decltype(::MPI_Iallreduce)* iallreduce = object.find("MPI_Iallreduce");
  // The objects behind MPI_COMM_WORLD, MPI_BYTE, … of mpi.h.
  MPI_Comm comm_world = object.find_data("ompi_mpi_comm_world");
  MPI_Comm comm_self = object.find_data("ompi_mpi_comm_self");
  MPI_Comm comm_null = object.find_data("ompi_mpi_comm_null");
  MPI_Errhandler errors_return = object.find_data("ompi_mpi_errors_return");
  MPI_Datatype byte = object.find_data("ompi_mpi_byte");
  MPI_Datatype int_type = object.find_data("ompi_mpi_int");
  MPI_Op min = object.find_data("ompi_mpi_op_min");
  MPI_Request request_null = object.find_data("ompi_request_null");

  /// MPI's text for an error code.
  std::string error_text(int code) const;
};

}  // namespace muster::detail
