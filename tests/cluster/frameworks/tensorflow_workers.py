# SPDX-License-Identifier: Apache-2.0
# A plain TensorFlow program: MultiWorkerMirroredStrategy reads TF_CONFIG. Prints one line per worker.
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver


@tf.function
def total():
    own = strategy.run(lambda: tf.constant(float(resolver.task_id)))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, own, axis=None)


summed = total()
print(
    f"tensorflow {tf.__version__} rank {resolver.task_id} of {strategy.num_replicas_in_sync} sum {float(summed):.0f}",
    flush=True,
)
